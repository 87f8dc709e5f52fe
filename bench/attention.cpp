// SPDX-License-Identifier: Apache-2.0
/// Compares train_gpt's block-sparse attention on one thread, forward and backward, with its dense attention.
/// bench_attention [CONTEXT [ROUNDS]] [--precision fp32|bf16] [--mask FILE] [--memory]
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "command_line.hpp"
#include "cpu/choice.hpp"
#include "cpu/cpu.hpp"
#include "key_blocks.hpp"
#include "paired.hpp"
#include "resident.hpp"
#include "sparse_layout.hpp"

namespace gpt {
namespace {

constexpr std::int64_t width = 64;

template <class T>
cpu::Matrix<T> random_matrix(std::int64_t rows, std::int64_t columns) {
  cpu::Matrix<T> matrix;
  matrix.resize(rows, columns);
  std::mt19937 random{1};
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < matrix.count(); ++i) {
    matrix.data()[i] = zeroth::from_float<T>(normal(random));
  }
  return matrix;
}

/// One head's forward and backward.
template <class T>
class OneHead {
 public:
  OneHead(std::int64_t context, KeyBlocks const* key_blocks)
      : matmul_{cpu::make_matmul(cpu::choose(MathLibrary::automatic, zeroth::dtype_of<T>))},
        cpu_{*matmul_},
        heads_{.count = 1, .width = width, .context = context, .key_blocks = key_blocks},
        qkv_{random_matrix<T>(context, 3 * width)},
        dy_{random_matrix<T>(context, width)} {
    y_.resize(context, width);
    dqkv_.resize(context, 3 * width);
    log_sums_.resize(context, 1);
    cpu_.prepare(heads_);
  }
  void operator()() {
    cpu_.attend(heads_, qkv_, log_sums_, y_);
    cpu_.attend_backward(heads_, qkv_, y_, log_sums_, dy_, dqkv_);
  }

 private:
  std::unique_ptr<cpu::Matmul> matmul_;
  cpu::Cpu<T> cpu_;
  AttentionHeads heads_;
  cpu::Matrix<T> qkv_, dy_, y_, dqkv_;
  cpu::Matrix<float> log_sums_;
};

template <class T>
void measure(std::int64_t context, int rounds, std::string const& precision) {
  auto const layout = benchmark_layout(1, context);
  KeyBlocks const key_blocks{layout, 0, 1};
  OneHead<T> sparse{context, &key_blocks}, dense{context, nullptr};
  auto const paired = zeroth::bench::compare(
      rounds, [&] { sparse(); }, [&] { dense(); });
  nlohmann::json const line{{"benchmark", "attention"},
                            {"precision", precision},
                            {"context", context},
                            {"width", width},
                            {"density", layout.density()},
                            {"seconds", paired.subject_seconds},
                            {"dense_seconds", paired.yardstick_seconds},
                            {"time_over_density_times_dense", 1 / (paired.ratio * layout.density())},
                            {"dense_over_sparse", paired.ratio},
                            {"ratio_quartiles", {paired.ratio_low, paired.ratio_high}}};
  std::cout << line.dump() << std::endl;
}

/// The peak memory of block-sparse attention, with its inputs and results.
template <class T>
void measure_memory(std::int64_t context, std::string const& precision) {
  zeroth::bench::Growth const growth;
  auto const layout = benchmark_layout(1, context);
  KeyBlocks const key_blocks{layout, 0, 1};
  OneHead<T>{context, &key_blocks}();
  nlohmann::json const line{{"benchmark", "attention"}, {"precision", precision},      {"context", context},
                            {"width", width},           {"density", layout.density()}, {"peak_bytes", growth.peak()}};
  std::cout << line.dump() << std::endl;
}

/// For peers: a byte for each block of queries and block of keys.
void write_mask(std::int64_t context, std::string const& path) {
  auto const layout = benchmark_layout(1, context);
  std::ofstream file{path, std::ios::binary};
  for (std::int64_t row = 0; row < layout.blocks(); ++row) {
    for (std::int64_t column = 0; column < layout.blocks(); ++column) {
      file.put(layout.has(0, row, column) ? '\1' : '\0');
    }
  }
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) {
  CLI::App app{"Block-sparse attention of train_gpt against its dense attention"};
  std::int64_t context = 8192;
  int rounds = 7;
  std::string precision = "fp32", mask;
  app.add_option("CONTEXT", context, "a multiple of 64")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("ROUNDS", rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("--precision", precision)->capture_default_str()->check(CLI::IsMember({"fp32", "bf16"}));
  bool memory = false;
  app.add_option("--mask", mask, "file for the layout, a byte for each block");
  app.add_flag("--memory", memory, "peak bytes of one forward and backward, instead of times");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!mask.empty()) {
      gpt::write_mask(context, mask);
    }
    if (memory) {
      precision == "fp32" ? gpt::measure_memory<float>(context, precision)
                          : gpt::measure_memory<zeroth::bf16>(context, precision);
    } else {
      precision == "fp32" ? gpt::measure<float>(context, rounds, precision)
                          : gpt::measure<zeroth::bf16>(context, rounds, precision);
    }
  } catch (std::exception const& error) {
    std::cerr << "bench_attention: " << error.what() << '\n';
    return 2;
  }
}
