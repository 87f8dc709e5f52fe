// SPDX-License-Identifier: Apache-2.0
/// Measures the parts of a micro-step of train_gpt on a GPU: each layer separately, forward and backward, in bf16 with
/// gradients in bf16, on random numbers. One JSON line each, and one for the total.
/// bench_cuda_gpt [124M|1.5B|tiny [SEQUENCES, 16 [ROUNDS]]] [--context N] [--vocabulary N]
///                [--sparse | --algorithms FILE]
///
/// Attention is measured by own kernels, which count in the total, and, if cuDNN is there, by cuDNN.
/// tiny: a model of two layers with 32 channels, to rehearse this program without a GPU.
/// --sparse: attention only, dense and block-sparse, with a context of 8,192.
/// --algorithms: matrix products only, each with up to eight algorithms of cuBLASLt, and writes the fastest ones to a
/// file for train_gpt --algorithms. The shapes are those of a run with the same model, micro-batch, --context and
/// --vocabulary, in bf16 with gradients of type --gradients.
/// All layers share the same weights, which may stay in the cache, unlike those of a real model.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "command_line.hpp"
#include "cuda_timing.hpp"
#include "gpt.hpp"
#include "gpu/batch_upload.hpp"
#include "gpu/cudnn_attention.hpp"
#include "gpu/gpu.hpp"
#include "gpu/measure.hpp"
#include "paired.hpp"
#include "sparse_layout.hpp"
#include "zeroth/tool/core/whole_file.hpp"

namespace gpt::gpu {
namespace {

using T = zeroth::bf16;
using zeroth::bench::Stopwatch;

/// A unit that is always open: all parameters share the same memory, and so do all gradients.
using Open = OpenUnit<Gpu<T>, SharedMemoryPass<T, T>::Guard>;

/// Repeats a few million small random numbers: products of equal numbers run faster than others.
Matrix<T> random_matrix(std::int64_t rows, std::int64_t cols) {
  static std::vector<T> const some = [] {
    std::mt19937 random{1};
    std::normal_distribution<float> normal{0, 0.02F};
    std::vector<T> values(std::size_t{4} << 20U);
    for (auto& value : values) {
      value = zeroth::from_float<T>(normal(random));
    }
    return values;
  }();
  Matrix<T> matrix;
  matrix.resize(rows, cols);
  for (std::int64_t at = 0; at < matrix.count(); at += std::ssize(some)) {
    auto const count = std::min(std::ssize(some), matrix.count() - at);
    expect(cudaMemcpy(matrix.data() + at, some.data(), static_cast<std::size_t>(count) * sizeof(T), cudaMemcpyDefault),
           "cudaMemcpy");
  }
  return matrix;
}

Batch random_tokens(std::int64_t tokens) {
  std::mt19937 random{2};
  Batch batch;
  for (std::int64_t i = 0; i < tokens; ++i) {
    batch.inputs.push_back(static_cast<std::uint8_t>(random() >> 24U));
    batch.targets.push_back(static_cast<std::uint8_t>(random() >> 24U));
  }
  return batch;
}

class Bench {
 public:
  Bench(std::string name, Shape const& shape, std::int64_t sequences, int rounds)
      : name_{std::move(name)},
        shape_{shape},
        tokens_{sequences * shape.context},
        rounds_{rounds},
        values_{random_matrix(shape.vocabulary, shape.channels)},
        gradients_{random_matrix(shape.vocabulary, shape.channels)},
        open_{gpu_, {values_.data(), gradients_.data()}} {
    zeroth::bench::expect(cudaGetDeviceProperties(&device_, 0), "cudaGetDeviceProperties");
  }

  /// Attention without a layout, and with one.
  void run_attention() {
    auto const products = 2 * static_cast<double>(tokens_) * static_cast<double>(shape_.context * shape_.channels);
    auto const layout = benchmark_layout(shape_.heads, shape_.context);
    KeyBlocks const key_blocks{layout, 0, shape_.heads};
    attention("attention", products, shape_.layers, nullptr);
    attention_by_cudnn(products);
    attention("block-sparse attention", products * layout.density(), shape_.layers, &key_blocks);
  }
  void run() {
    auto const c = shape_.channels;
    auto const bytes = [&](std::int64_t columns) { return static_cast<double>(tokens_ * columns) * sizeof(T); };
    auto const products = [&](std::int64_t in, std::int64_t out) {
      return 2 * static_cast<double>(tokens_) * static_cast<double>(in) * static_cast<double>(out);
    };
    auto const blocks = shape_.layers;
    embedding(bytes(2 * c));
    layer_norm(bytes(2 * c), 2 * blocks);
    // Half of the scores are masked, and not computed.
    attention("attention", products(shape_.context, c), blocks, nullptr);
    attention_by_cudnn(products(shape_.context, c));
    linear("c_attn", {c, 3 * c, false, false}, products(c, 3 * c), blocks);
    linear("c_proj", {c, c, true, false}, products(c, c), blocks);
    feed_forward(products(c, 4 * c), blocks);
    linear("mlp.c_proj", {4 * c, c, true, true}, products(4 * c, c), blocks);
    head(products(c, shape_.vocabulary));
    all_together();
  }

 private:
  struct Layer {
    std::int64_t in, out;
    bool onto_residual, behind_gelu;
  };

  /// Times `work`, which a micro-step has `times` times. Its rate is in products, or in bytes moved.
  void report(std::string const& what, std::int64_t times, double products, double bytes,
              std::function<void()> const& work) {
    std::vector<double> seconds;
    for (int round = -2; round < rounds_; ++round) {  // two warm-up rounds
      double const took = watch_.seconds([&](cudaStream_t) { work(); });
      if (round >= 0) {
        seconds.push_back(took);
      }
    }
    double const median = zeroth::bench::quantile(seconds, 0.5);
    nlohmann::json line{{"benchmark", "cuda_gpt"},
                        {"model", name_},
                        {"device", device_.name},
                        {"tokens", tokens_},
                        {"what", what},
                        {"times", times},
                        {"us", median * 1e6},
                        {"us_of_all", median * 1e6 * static_cast<double>(times)}};
    if (products > 0) {
      line["tflop_per_s"] = products * 1e-12 / median;
    } else {
      line["gb_per_s"] = bytes * 1e-9 / median;
    }
    std::cout << line.dump() << std::endl;
    products_ += products * static_cast<double>(times);
    seconds_ += median * static_cast<double>(times);
  }

  void embedding(double bytes) {
    zeroth::Model model;
    Embedding<Gpu<T>> const layer{EmbeddingParams{model, shape_}, shape_, 0};
    BatchUpload upload{tokens_, shape_.vocabulary, 1};
    auto const batch = upload.enqueue(random_tokens(tokens_), watch_.stream());
    auto x = random_matrix(tokens_, shape_.channels);
    Matrix<T> all;  // stays empty: tensor ranks do not divide a GPU's rows
    report("embedding", 1, 0, bytes, [&] { layer.forward(open_, batch, x, all); });
    report("embedding, backward", 1, 0, bytes, [&] { layer.backward(open_, batch, x, all); });
  }

  void layer_norm(double bytes, std::int64_t times) {
    zeroth::Model model;
    LayerNorm<Gpu<T>> const layer{LayerNormParams{model, model.unit("norm"), "norm", shape_.channels}};
    auto const x = random_matrix(tokens_, shape_.channels);
    auto y = random_matrix(tokens_, shape_.channels);
    auto const dy = random_matrix(tokens_, shape_.channels);
    typename LayerNorm<Gpu<T>>::Tape tape;
    report("layer norm", times, 0, bytes, [&] { layer.forward(open_, x, tape, y); });
    report("layer norm, again", times, 0, bytes, [&] { layer.again(open_, x, tape, y); });
    report("layer norm, backward", times, 0, 2 * bytes, [&] { layer.backward(open_, x, tape, dy, y); });
  }

  void attention(std::string const& name, double products, std::int64_t times, KeyBlocks const* key_blocks) {
    attention_in(open_, name, products, times, key_blocks);
  }
  /// If cuDNN is there. Counts as 0 times in a micro-step, because own kernels are the default.
  void attention_by_cudnn(double products) {
    CudnnShape const plans{zeroth::dtype_of<T>,
                           tokens_ / shape_.context,
                           {.count = shape_.heads, .width = shape_.channels / shape_.heads, .context = shape_.context}};
    try {
      Gpu<T> gpu{watch_.stream(), {}, nullptr, std::make_unique<CudnnAttention>(watch_.stream(), plans)};
      attention_in(Open{gpu, {values_.data(), gradients_.data()}}, "attention, cuDNN", products, 0, nullptr);
    } catch (zeroth::Error const& error) {
      std::cerr << "bench_cuda_gpt: attention, cuDNN is left out: " << error.what() << '\n';
    }
  }
  void attention_in(Open const& open, std::string const& name, double products, std::int64_t times,
                    KeyBlocks const* key_blocks) {
    Attention<Gpu<T>> const layer{shape_, shape_.channels, key_blocks};
    Matrix<float> log_sums;
    auto const qkv = random_matrix(tokens_, 3 * shape_.channels);
    auto const dy = random_matrix(tokens_, shape_.channels);
    auto y = random_matrix(tokens_, shape_.channels);
    auto dqkv = random_matrix(tokens_, 3 * shape_.channels);
    report(name, times, products, 0, [&] { layer.forward(open, qkv, log_sums, y); });
    // Five products of this size; two of them are computed twice.
    report(name + ", backward", times, 2.5 * products, 0, [&] { layer.backward(open, qkv, y, log_sums, dy, dqkv); });
  }

  void linear(std::string const& name, Layer const& size, double products, std::int64_t times) {
    zeroth::Model model;
    Linear<Gpu<T>> const layer{LinearParams{model, model.unit("linear"), name, size.in, size.out, 0.02F}};
    auto const x = random_matrix(tokens_, size.in);
    auto const residual = random_matrix(tokens_, size.out);
    auto y = random_matrix(tokens_, size.out);
    auto inner = random_matrix(tokens_, size.in);
    auto dx = random_matrix(tokens_, size.in);
    report(name, times, products, 0, [&] {
      if (size.onto_residual) {
        layer.forward(open_, x, residual, y);
      } else {
        layer.forward(open_, x, y);
      }
    });
    report(name + ", backward", times, 2 * products, 0, [&] {
      if (size.behind_gelu) {
        layer.backward_gelu(open_, x, inner, residual, dx);
      } else {
        layer.backward(open_, x, residual, dx);
      }
    });
  }

  void feed_forward(double products, std::int64_t times) {
    auto const c = shape_.channels;
    zeroth::Model model;
    Linear<Gpu<T>> const up{LinearParams{model, model.unit("fc"), "fc", c, 4 * c, 0.02F}};
    auto const x = random_matrix(tokens_, c);
    auto inner = random_matrix(tokens_, 4 * c);
    auto hidden = random_matrix(tokens_, 4 * c);
    auto dx = random_matrix(tokens_, c);
    report("c_fc and gelu", times, products, 0, [&] { up.forward_gelu(open_, x, inner, hidden); });
    report("c_fc, backward", times, 2 * products, 0, [&] { up.backward(open_, x, hidden, dx); });
  }

  void head(double products) {
    zeroth::Model model;
    EmbeddingParams const embedding{model, shape_};
    Head<Gpu<T>> const layer{HeadParams{model, shape_, embedding, Rows::whole}};
    BatchUpload upload{tokens_, shape_.vocabulary, 1};
    auto const batch = upload.enqueue(random_tokens(tokens_), watch_.stream());
    auto const x = random_matrix(tokens_, shape_.channels);
    typename Head<Gpu<T>>::Tape tape;
    Matrix<T> dx;
    report("head", 1, products, 0, [&] { static_cast<void>(layer.forward(open_, x, batch, tape)); });
    report("head, backward", 1, 2 * products, 0, [&] { layer.backward(open_, x, batch, tape, {1}, dx); });
  }

  /// The time of a micro-step without losses between layers. Attention counts half of its products here; MFU counts
  /// them without a mask.
  void all_together() const {
    nlohmann::json const line{{"benchmark", "cuda_gpt"},
                              {"model", name_},
                              {"device", device_.name},
                              {"tokens", tokens_},
                              {"what", "all"},
                              {"us_of_all", seconds_ * 1e6},
                              {"tokens_per_s", static_cast<double>(tokens_) / seconds_},
                              {"tflop_per_s", products_ * 1e-12 / seconds_}};
    std::cout << line.dump() << std::endl;
  }

  std::string name_;
  Shape shape_;
  std::int64_t tokens_;
  int rounds_;
  cudaDeviceProp device_{};
  Stopwatch watch_;
  Gpu<T> gpu_{watch_.stream(), {}};
  Matrix<T> values_, gradients_;  // sized for the largest parameter
  Open open_;
  double products_ = 0, seconds_ = 0;
};

/// Measures the algorithms of all products, writes the file, and prints a line for each product.
template <class G>
void choose_algorithms(std::string const& file, Shape const& shape, std::int64_t sequences) {
  auto const values = random_matrix(shape.vocabulary, shape.channels);
  Matrix<G> gradients;
  gradients.resize(shape.vocabulary, shape.channels);
  Stopwatch const watch;
  Algorithms algorithms{file, origin_here(false)};
  measure_products<T, G>(shape, random_tokens(sequences * shape.context), values.data(), gradients.data(),
                         watch.stream(), false, algorithms);
  zeroth::WholeFile out{"algorithms", file};
  out.write(algorithms.to_json());
  out.publish(zeroth::Outlives::process);
  for (auto const& [kind, algorithm] : algorithms.all()) {
    auto const best = algorithm.us.at(static_cast<std::size_t>(algorithm.result));
    nlohmann::json const line{{"benchmark", "cuda_gpt_algorithms"},  {"product", describe(kind)},
                              {"result", algorithm.result},          {"us", best},
                              {"us_of_first", algorithm.us.front()}, {"ratio", algorithm.us.front() / best}};
    std::cout << line.dump() << std::endl;
  }
}

}  // namespace
}  // namespace gpt::gpu

int main(int argc, char** argv) {
  CLI::App app{"Where a micro-step of train_gpt on a GPU spends its time"};
  std::string name = "1.5B";
  std::int64_t sequences = 16;
  int rounds = 15;
  app.add_option("MODEL", name, "of GPT-2")->capture_default_str()->check(CLI::IsMember({"124M", "1.5B", "tiny"}));
  app.add_option("SEQUENCES", sequences, "of a micro-batch")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("ROUNDS", rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  bool sparse = false;
  app.add_flag("--sparse", sparse, "attention only, dense and block-sparse, with a context of 8,192");
  gpt::Shape shape{.layers = 12, .heads = 12, .channels = 768, .context = 1024, .vocabulary = 50304};  // a multiple of
                                                                                                       // tiles
  std::string algorithms, gradients = "bf16";
  app.add_option("--algorithms", algorithms, "file to write cuBLASLt's fastest algorithm for each product to")
      ->excludes("--sparse");
  for (auto const& [option, value, what] : {std::tuple{"--context", &shape.context, "tokens of a sequence"},
                                            std::tuple{"--vocabulary", &shape.vocabulary, "of the model"}}) {
    app.add_option(option, *value, what)->capture_default_str()->check(zeroth::bench::count)->excludes("--sparse");
  }
  app.add_option("--gradients", gradients, "their dtype, with --algorithms")
      ->capture_default_str()
      ->check(CLI::IsMember({"bf16", "fp32"}))
      ->needs("--algorithms");
  CLI11_PARSE(app, argc, argv);
  if (name == "1.5B") {
    shape.layers = 48;
    shape.heads = 25;
    shape.channels = 1600;
  } else if (name == "tiny") {
    shape.layers = 2;
    shape.heads = 2;
    shape.channels = 32;
  }
  try {
    if (!algorithms.empty()) {
      auto const choose =
          gradients == "bf16" ? &gpt::gpu::choose_algorithms<zeroth::bf16> : &gpt::gpu::choose_algorithms<float>;
      choose(algorithms, shape, sequences);
    } else if (sparse) {
      shape.context = 8192;
      gpt::gpu::Bench{name, shape, sequences, rounds}.run_attention();
    } else {
      gpt::gpu::Bench{name, shape, sequences, rounds}.run();
    }
  } catch (std::exception const& error) {
    std::cerr << "bench_cuda_gpt: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
