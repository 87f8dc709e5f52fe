// SPDX-License-Identifier: Apache-2.0
/// Compares the CPU device's loops over memory with memcpy: bytes read and written per second, on one thread.
/// bench_device_loops [MIB of one buffer, 32 [ROUNDS]]
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "command_line.hpp"
#include "device/codec_loops.hpp"
#include "device/element_loops.hpp"
#include "device/rank_fold.hpp"
#include "paired.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth {
namespace {

constexpr int buffer_count = 5;

class Bench {
 public:
  Bench(std::int64_t bytes, int rounds, std::string only) : bytes_{bytes}, rounds_{rounds}, only_{std::move(only)} {
    for (auto& buffer : memory_) {
      buffer = device_->allocate(device::Category::scratch, bytes);
      std::memset(buffer->data(), 0x3c, static_cast<std::size_t>(bytes));
    }
    block_sums_.resize(static_cast<std::size_t>(device::sum_blocks(bytes / 2)));
  }

  void run() {
    report("copy_bytes", 2 * bytes_, [&] { device::copy_bytes(at(0), at(1), bytes_); });
    for (Dtype const dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
      for (int ranks = 2; ranks < buffer_count; ++ranks) {
        rank_sum(dtype, ranks, 1);
        rank_sum(dtype, ranks, ranks);
      }
    }
    epilogue(Dtype::fp32, Dtype::fp32, false);
    epilogue(Dtype::fp32, Dtype::fp32, true);
    epilogue(Dtype::bf16, Dtype::fp32, true);
    epilogue(Dtype::bf16, Dtype::bf16, false);
    epilogue(Dtype::fp16, Dtype::fp16, true);
    squares(Dtype::fp32);
    squares(Dtype::bf16);
    norm();
    for (Codec const codec : {Codec::exact, Codec::int8, Codec::int4, Codec::sign}) {
      for (Dtype const dtype : {Dtype::fp32, Dtype::bf16}) {
        encode_and_fold(codec, dtype);
      }
    }
  }

 private:
  [[nodiscard]] std::byte* at(int buffer) const { return memory_[static_cast<std::size_t>(buffer)]->data(); }

  void report(std::string const& what, std::int64_t moved_bytes, std::function<void()> const& subject) {
    if (what.find(only_) == std::string::npos) {
      return;
    }
    auto const paired = bench::compare(rounds_, subject, [&] {
      std::memcpy(at(buffer_count - 1), at(buffer_count - 2), static_cast<std::size_t>(bytes_));
    });
    double const rate = static_cast<double>(moved_bytes) * 1e-9 / paired.subject_seconds;
    double const work = static_cast<double>(moved_bytes) / static_cast<double>(2 * bytes_);
    nlohmann::json const line{{"benchmark", what},
                              {"buffer_bytes", bytes_},
                              {"gb_per_s", rate},
                              {"ratio_to_memcpy", paired.ratio * work},
                              {"ratio_quartiles", {paired.ratio_low * work, paired.ratio_high * work}}};
    std::cout << line.dump() << std::endl;
  }

  /// In place, like a reduce-scatter (one output) or a fused all-reduce (all of them).
  void rank_sum(Dtype dtype, int inputs, int outputs) {
    std::array<void*, buffer_count> buffers{};
    for (int i = 0; i < buffer_count; ++i) {
      buffers[static_cast<std::size_t>(i)] = at(i);
    }
    report("rank_sum " + std::string{name_of(dtype)} + " " + std::to_string(inputs) + " to " + std::to_string(outputs),
           (inputs + outputs) * bytes_, [&] {
             device::rank_fold(Reduce::sum, buffers.data(), outputs, buffers.data(), inputs, dtype, 0,
                               bytes_ / bytes_of(dtype));
           });
  }

  void epilogue(Dtype source, Dtype destination, bool accumulate) {
    std::int64_t const count = bytes_ / 4;
    device::ReduceEpilogue args;
    args.source = at(0);
    args.source_dtype = source;
    args.destination = at(1);
    args.destination_dtype = destination;
    args.count = count;
    args.accumulate = accumulate;
    args.block_sums = block_sums_.data();
    args.sums_count = count;
    auto const bytes_each = bytes_of(source) + (accumulate ? 2 : 1) * bytes_of(destination);
    report("reduce_epilogue " + std::string{name_of(source)} + (accumulate ? " onto " : " to ") +
               std::string{name_of(destination)},
           count * bytes_each, [&] { device::reduce_epilogue(args); });
  }

  /// In place: moves nothing, and computes sums of squares.
  void squares(Dtype dtype) {
    device::ReduceEpilogue args;
    args.source = args.destination = at(1);
    args.source_dtype = args.destination_dtype = dtype;
    args.count = args.sums_count = bytes_ / bytes_of(dtype);
    args.block_sums = block_sums_.data();
    report("reduce_epilogue squares of " + std::string{name_of(dtype)}, bytes_, [&] { device::reduce_epilogue(args); });
  }

  /// All of a rank's work for a norm: squares by blocks, and the sum over blocks.
  void norm() {
    device::ReduceEpilogue args;
    args.source = args.destination = at(1);
    args.count = args.sums_count = bytes_ / bytes_of(Dtype::fp32);
    args.block_sums = block_sums_.data();
    report("norm of fp32", bytes_, [&] {
      device::reduce_epilogue(args);
      static_cast<void>(device::total_of(block_sums_.data(), device::sum_blocks(args.count)));
    });
  }

  /// A rank's work for a reduction by a codec between two ranks, without the network: encodes its elements, and adds up
  /// two pieces of half as many.
  void encode_and_fold(Codec codec, Dtype dtype) {
    auto const count = bytes_ / bytes_of(dtype) / (2 * codec_block_count) * (2 * codec_block_count);
    auto const sent = encoded_bytes(codec, dtype, count);
    auto const errors = codec == Codec::sign ? 2 * count * bytes_of(Dtype::fp32) : 0;
    auto const encoded = keeps_elements(codec) ? 0 : count * bytes_of(dtype) + sent + errors;
    std::vector<float> lost(static_cast<std::size_t>(codec == Codec::sign ? count : 0));
    report("encode and fold " + std::string{name_of(codec)} + " of " + std::string{name_of(dtype)},
           encoded + sent + count / 2 * bytes_of(dtype), [&] {
             if (!keeps_elements(codec)) {
               device::encode({.codec = codec,
                               .source = at(0),
                               .dtype = dtype,
                               .count = count,
                               .destination = at(1),
                               .errors = errors > 0 ? lost.data() : nullptr});
             }
             device::fold_received(
                 {.codec = codec, .received = at(1), .ranks = 2, .dtype = dtype, .count = count / 2, .output = at(2)});
           });
  }

  std::int64_t bytes_;
  int rounds_;
  std::string only_;
  std::unique_ptr<device::Device> device_ = device::make_cpu_device();
  std::array<std::unique_ptr<device::Memory>, buffer_count> memory_;
  std::vector<float> block_sums_;
};

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  CLI::App app{"The CPU device's loops over memory against memcpy"};
  std::int64_t mebibytes = 32;
  int rounds = 15;
  app.add_option("MIB", mebibytes, "of one buffer")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("ROUNDS", rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  std::string only;
  app.add_option("--only", only, "measures what has this in its name");
  CLI11_PARSE(app, argc, argv);
  zeroth::Bench{mebibytes << 20U, rounds, only}.run();
}
