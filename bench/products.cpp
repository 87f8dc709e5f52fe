// SPDX-License-Identifier: Apache-2.0
/// Compares the speed of matrix products inside training steps of train_gpt's model with the same products alone: as
/// many, by the same library, on the same two threads, with operands at fixed addresses.
///
///   bench_products [ROUNDS [TEXT]]
/// prints one JSON line per load and precision.
#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "batches.hpp"
#include "command_line.hpp"
#include "cpu/cpu.hpp"
#include "cpu/rehearsal.hpp"
#include "gpt.hpp"
#include "loads.hpp"
#include "paired.hpp"
#include "zeroth/zeroth.hpp"

namespace {

using gpt::ProductKind;
using zeroth::bench::Load;
using zeroth::bench::seconds;

constexpr int ranks = 2;

/// A library whose products are timed one by one.
class TimedMatmul final : public gpt::cpu::Matmul {
 public:
  explicit TimedMatmul(gpt::MathChoice const& choice) : library_{gpt::cpu::make_matmul(choice)} {}

  void prepare(ProductKind const& kind) override { library_->prepare(kind); }
  void operator()(gpt::Product const& product) override {
    ++calls_[kind_of(product)];
    seconds_ += seconds([&] { (*library_)(product); });
  }
  [[nodiscard]] std::int64_t scratch_bytes() const override { return library_->scratch_bytes(); }
  [[nodiscard]] std::string table() const override { return library_->table(); }
  [[nodiscard]] std::string slow_products() const override { return library_->slow_products(); }

  void forget() {
    calls_.clear();
    seconds_ = 0;
  }
  /// Seconds of all products since forget().
  [[nodiscard]] double spent() const noexcept { return seconds_; }
  [[nodiscard]] std::map<ProductKind, std::int64_t> const& calls() const noexcept { return calls_; }

 private:
  std::unique_ptr<gpt::cpu::Matmul> library_;
  std::map<ProductKind, std::int64_t> calls_;
  double seconds_ = 0;
};

/// Operands of a kind of product, not used elsewhere.
class Alone {
 public:
  explicit Alone(ProductKind const& kind)
      : a_{factor(kind.factors, kind.a_transposed ? kind.k : kind.m, kind.a_transposed ? kind.m : kind.k, kind.a_stride,
                  kind.a_transposed)},
        b_{factor(kind.factors, kind.b_transposed ? kind.n : kind.k, kind.b_transposed ? kind.k : kind.n, kind.b_stride,
                  kind.b_transposed)},
        out_{take(kind.m * kind.out_stride)},
        addend_{kind.adds_other ? take(kind.m * kind.out_stride) : nullptr},
        bias_{kind.epilogue == gpt::Epilogue::bias ? take(kind.n) : nullptr},
        product_{.a = a_,
                 .b = b_,
                 .out = {out_, kind.out, kind.out_stride},
                 .beta = kind.adds ? 1.0F : 0.0F,
                 .addend = addend_,
                 .epilogue = kind.epilogue,
                 .bias = bias_} {}
  [[nodiscard]] gpt::Product const& product() const noexcept { return product_; }

 private:
  /// Memory for `elements` of any type. Each is about 0.5 as fp32 or bf16.
  void* take(std::int64_t elements) {
    auto& of = memory_.emplace_back();
    of.resize(1, elements);
    std::fill_n(reinterpret_cast<std::uint16_t*>(of.data()), 2 * elements, std::uint16_t{0x3f00});
    return of.data();
  }
  gpt::Operand factor(zeroth::Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t stride, bool transposed) {
    return {take(rows * stride), dtype, rows, cols, stride, transposed};
  }

  std::vector<gpt::cpu::Matrix<float>> memory_;
  gpt::Operand a_, b_;
  void *out_, *addend_, *bias_;
  gpt::Product product_;
};

/// The library's seconds for `calls` products of each kind.
double spent_alone(gpt::MathChoice const& choice, std::map<ProductKind, std::int64_t> const& calls) {
  auto const library = gpt::cpu::make_matmul(choice);
  double all = 0;
  for (auto const& each : calls) {
    auto const count = each.second;
    Alone const alone{each.first};
    library->prepare(each.first);
    (*library)(alone.product());  // warms pages and caches
    all += seconds([&] {
      for (std::int64_t i = 0; i < count; ++i) {
        (*library)(alone.product());
      }
    });
  }
  return all;
}

/// Rank 0's figures, by round.
struct Figures {
  std::vector<double> step, inside, alone;
  std::int64_t operations = 0;  ///< Operations of the products in a turn.
};

template <class T>
class Trainer {
 public:
  Trainer(zeroth::Job& job, Load const& load, gpt::Batches const& batches)
      : batches_{batches},
        model_{1},
        params_{model_, shape_of(load)},
        engine_{job, model_, zeroth::Config::from_json(stage_file(load))},
        gpt_{params_, gpt::Recompute::off, {}},
        timed_{zeroth::bench::math_for(zeroth::dtype_of<T>)},
        cpu_{timed_},
        workspace_{gpt_.workspace()} {
    gpt::cpu::rehearse<T>(gpt_, cpu_, workspace_, engine_.micro_batch() * load.context);
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      for (auto micro : engine_.micro_steps()) {
        batches_.read(micro.first_sample(), engine_.micro_batch(), batch_);
        gpt::PassOn pass{cpu_, micro};
        float const loss = gpt_.forward(pass, batch_, workspace_);
        gpt_.backward(pass, batch_, workspace_, micro.report_loss(loss));
      }
      static_cast<void>(engine_.step());
    }
    static_cast<void>(engine_.finish());
  }
  [[nodiscard]] TimedMatmul& timed() noexcept { return timed_; }

 private:
  static std::string stage_file(Load const& load) {
    return fmt::format(R"({{"train_micro_batch_size_per_gpu": {}, "gradient_clipping": 1.0, "bf16": {{"enabled": {}}},
                            "optimizer": {{"type": "AdamW", "params": {{"lr": 1e-4}}}}}})",
                       load.micro_batch, std::same_as<T, zeroth::bf16>);
  }

  gpt::Batches const& batches_;
  zeroth::Model model_;
  gpt::GptParams params_;
  zeroth::Engine<T> engine_;
  gpt::Gpt<gpt::cpu::Cpu<T>> gpt_;
  TimedMatmul timed_;
  gpt::cpu::Cpu<T> cpu_;
  typename gpt::Gpt<gpt::cpu::Cpu<T>>::Workspace workspace_;
  gpt::Batch batch_;
};

template <class T>
Figures measure(Load const& load, int rounds, gpt::Batches const& batches) {
  Figures figures;
  int const status = zeroth::launch({.thread_ranks = ranks}, [&](zeroth::Job& job) {
    Trainer<T> trainer{job, load, batches};
    trainer.run(2);  // warms pages and caches
    for (int round = 0; round < rounds; ++round) {
      trainer.timed().forget();
      auto const step = seconds([&] { trainer.run(load.micro_steps); });
      auto const inside = trainer.timed().spent();
      auto const alone = spent_alone(zeroth::bench::math_for(zeroth::dtype_of<T>), trainer.timed().calls());
      if (job.rank() == 0) {
        figures.step.push_back(step);
        figures.inside.push_back(inside);
        figures.alone.push_back(alone);
      }
    }
    if (job.rank() == 0) {
      for (auto const& [kind, count] : trainer.timed().calls()) {
        figures.operations += 2 * kind.m * kind.n * kind.k * count;
      }
    }
  });
  if (status != 0) {
    std::exit(status);
  }
  return figures;
}

template <class T>
void print(Load const& load, int rounds, gpt::Batches const& batches) {
  auto const figures = measure<T>(load, rounds, batches);
  std::vector<double> ratios;
  for (std::size_t round = 0; round < figures.inside.size(); ++round) {
    ratios.push_back(figures.alone[round] / figures.inside[round]);
  }
  auto const rate = [&](std::vector<double> const& of) {
    return 1e-9 * static_cast<double>(figures.operations) / zeroth::bench::quantile(of, 0.5);
  };
  nlohmann::ordered_json const line{
      {"benchmark", "products"},
      {"load", load.name},
      {"precision", zeroth::name_of(zeroth::dtype_of<T>)},
      {"products", zeroth::bench::math_for(zeroth::dtype_of<T>).name},
      {"ranks", ranks},
      {"rounds", rounds},
      {"gflops_inside", rate(figures.inside)},
      {"gflops_alone", rate(figures.alone)},
      {"share_of_step", zeroth::bench::quantile(figures.inside, 0.5) / zeroth::bench::quantile(figures.step, 0.5)},
      {"inside_over_alone", zeroth::bench::quantile(ratios, 0.5)},
      {"ratio_quartiles", {zeroth::bench::quantile(ratios, 0.25), zeroth::bench::quantile(ratios, 0.75)}}};
  fmt::print("{}\n", line.dump());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Products inside training steps over the same products alone"};
  int rounds = 7;
  std::string text = ZEROTH_SOURCE_DIR "/bench/products.cpp";
  app.add_option("ROUNDS", rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("TEXT", text, "to train on")->capture_default_str()->check(CLI::ExistingFile);
  CLI11_PARSE(app, argc, argv);
  gpt::Corpus const corpus{text};
  for (auto const& load : zeroth::bench::loads) {
    gpt::Batches const batches{corpus, load.context, gpt::Order::sequential, 1};
    print<float>(load, rounds, batches);
    print<zeroth::bf16>(load, rounds, batches);
  }
  return EXIT_SUCCESS;
}
