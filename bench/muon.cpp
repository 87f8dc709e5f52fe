// SPDX-License-Identifier: Apache-2.0
/// Measures Muon: its products, the orthogonal matrices made of them, and whole updates of a GPT's matrices at one and
/// two ranks, compared with AdamW and LAMB.
///
///   bench_muon [ROUNDS]
/// prints one JSON line per measurement.
///   bench_muon --update RANKS
/// measures one update alone, for peers/muon.py.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "command_line.hpp"
#include "cpu/muon_products.hpp"
#include "loads.hpp"
#include "optim/scaled_product.hpp"
#include "paired.hpp"
#include "zeroth/device/cpu.hpp"
#include "zeroth/optim/muon.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth {
namespace {

using Line = nlohmann::ordered_json;

/// Numbers without a pattern, from -0.5 to 0.5.
float number(std::int64_t index) {
  auto const mixed = (static_cast<std::uint64_t>(index) + 1) * 0x9e3779b97f4a7c15ULL;
  return static_cast<float>((mixed ^ (mixed >> 29U)) * 0xbf58476d1ce4e5b9ULL >> 40U) * 0x1p-24F - 0.5F;
}

/// Empty unless oneDNN computes layers in bf16.
optim::Multiply fast_products() {
  auto const choice = bench::math_for(Dtype::bf16);
  return choice.library == gpt::MathLibrary::onednn ? gpt::cpu::muon_products(gpt::cpu::make_matmul(choice))
                                                    : optim::Multiply{};
}

// ---- products -------------------------------------------------------------------------------------------------------

class Memory {
 public:
  template <class T>
  [[nodiscard]] T* take(std::int64_t count) {
    auto& block = blocks_.emplace_back(device_->allocate(device::Category::scratch, count * bytes_of(dtype_of<T>)));
    auto* const values = reinterpret_cast<T*>(block->data());
    for (std::int64_t i = 0; i < count; ++i) {
      values[i] = from_float<T>(number(i));
    }
    return values;
  }

 private:
  std::unique_ptr<device::Device> device_ = device::make_cpu_device();
  std::vector<std::unique_ptr<device::Memory>> blocks_;
};

/// Compares a product of bf16 matrices by the library with the same product by oneDNN.
void product(std::int64_t rows, std::int64_t inner, std::int64_t columns, int rounds) {
  auto const fast = fast_products();
  if (!fast) {
    return;
  }
  Memory memory;
  optim::ScaledProduct<bf16> const all{memory.take<bf16>(rows * inner),
                                       memory.take<bf16>(inner * columns),
                                       false,
                                       nullptr,
                                       memory.take<bf16>(rows * columns),
                                       rows,
                                       inner,
                                       columns,
                                       1,
                                       0,
                                       false};
  auto half = all;  // as the product of a matrix and its transpose is computed
  half.symmetric = true;
  auto* const panels = memory.take<float>(optim::panel_count(rows, inner));
  auto* const sums = memory.take<float>(rows * columns);
  auto const by_onednn = [&] { optim::multiply(all, fast, sums); };
  auto const print = [&](char const* computed, optim::ScaledProduct<bf16> const& of) {
    auto const paired = bench::compare(
        rounds, [&] { optim::multiply(of, panels); }, by_onednn);
    double const operations =
        2.0 * static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(columns);
    std::cout << Line{{"benchmark", "muon_product"},
                      {"rows", rows},
                      {"inner", inner},
                      {"columns", columns},
                      {"computed", computed},
                      {"ms", 1e3 * paired.subject_seconds},
                      {"onednn_ms", 1e3 * paired.yardstick_seconds},
                      {"onednn_gflops", operations * 1e-9 / paired.yardstick_seconds},
                      {"speed_over_onednn", paired.ratio},
                      {"ratio_quartiles", {paired.ratio_low, paired.ratio_high}}}
                     .dump()
              << std::endl;
  };
  print("all", all);
  if (rows == columns) {
    print("lower half", half);
  }
}

/// Compares one matrix of a step by Gram matrices with the standard products, both by the library.
void gram(std::int64_t rows, std::int64_t columns, int rounds) {
  optim::Muon const standard, by_gram{.method = optim::NewtonSchulzMethod::gram};
  optim::StepScalars const scalars{};
  Memory memory;
  auto* const matrix = memory.take<bf16>(rows * columns);
  auto const bytes = optim::orthogonal_workspace_bytes(by_gram, rows, columns);
  auto* const workspace = reinterpret_cast<std::byte*>(memory.take<float>(bytes / bytes_of(Dtype::fp32) + 1));
  auto const run = [&](optim::Muon const& by) {
    optim::orthogonalise({matrix, rows, columns, workspace, &by, &scalars});
  };
  auto const paired = bench::compare(
      rounds, [&] { run(by_gram); }, [&] { run(standard); });
  std::cout << Line{{"benchmark", "muon_gram"},
                    {"rows", rows},
                    {"columns", columns},
                    {"ms", 1e3 * paired.subject_seconds},
                    {"standard_ms", 1e3 * paired.yardstick_seconds},
                    {"speed_over_standard", paired.ratio},
                    {"ratio_quartiles", {paired.ratio_low, paired.ratio_high}}}
                   .dump()
            << std::endl;
}

/// Compares one matrix of a step by the library's products with oneDNN's.
void orthogonal(std::int64_t rows, std::int64_t columns, int rounds) {
  optim::Muon const rule{};
  optim::Muon fast{};
  fast.multiply = fast_products();
  optim::StepScalars const scalars{};
  Memory memory;
  auto* const matrix = memory.take<bf16>(rows * columns);
  auto const bytes = std::max(optim::orthogonal_workspace_bytes(rule, rows, columns),
                              optim::orthogonal_workspace_bytes(fast, rows, columns));
  auto* const workspace = reinterpret_cast<std::byte*>(memory.take<float>(bytes / bytes_of(Dtype::fp32) + 1));
  auto const run = [&](optim::Muon const& by) {
    optim::orthogonalise({matrix, rows, columns, workspace, &by, &scalars});
  };
  auto const paired = bench::compare(
      rounds, [&] { run(rule); }, [&] { run(fast.multiply ? fast : rule); });
  Line line{{"benchmark", "muon_orthogonal"},
            {"rows", rows},
            {"columns", columns},
            {"ms", 1e3 * paired.subject_seconds},
            {"gflops", optim::orthogonal_operations(rule, rows, columns) * 1e-9 / paired.subject_seconds}};
  if (fast.multiply) {
    line["onednn_ms"] = 1e3 * paired.yardstick_seconds;
    line["speed_over_onednn"] = paired.ratio;
    line["ratio_quartiles"] = {paired.ratio_low, paired.ratio_high};
  }
  std::cout << line.dump() << std::endl;
}

// ---- updates --------------------------------------------------------------------------------------------------------

struct Variant {
  std::string optimizer;
  int ranks;
  bool onednn = false;
  friend bool operator<(Variant const& a, Variant const& b) {
    return std::tie(a.optimizer, a.ranks, a.onednn) < std::tie(b.optimizer, b.ranks, b.onednn);
  }
};

/// The matrices of L1's blocks, without anything else.
struct Matrices {
  Model model{1};
  std::vector<Unit> units;
  std::vector<std::vector<Param<2>>> params;

  Matrices() {
    auto const shape = bench::shape_of(bench::loads[0]);
    auto const n = shape.channels;
    std::array<std::array<std::int64_t, 2>, 4> const extents{{{n, 3 * n}, {n, n}, {n, 4 * n}, {4 * n, n}}};
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
      units.push_back(model.unit(fmt::format("block{}", layer)));
      auto& own = params.emplace_back();
      for (auto const [rows, columns] : extents) {
        own.push_back(model.param(units.back(), fmt::format("block{}.{}", layer, own.size()), {rows, columns},
                                  Normal{0.02F}, {.matrix = true}));
      }
    }
  }
};

Config config_of(Variant const& variant) {
  auto const config = Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0,
           "zero_optimization": {{"stage": 1, "overlap_comm": true, "reduce_bucket_size": 2e6}},
           "optimizer": {{"type": "{}", "params": {{"lr": 1e-4, "weight_decay": 0.1}}}} }})",
      variant.optimizer));
  return variant.onednn ? config.with(fast_products()) : config;
}

/// A micro-step whose gradients are numbers.
void fill_gradients(Engine<float>& engine, Matrices const& matrices) {
  for (auto micro : engine.micro_steps()) {
    for (auto const& unit : matrices.units) {
      auto const p = micro.forward(unit);
    }
    float const seed = micro.report_loss(1);
    for (auto unit = matrices.units.size(); unit-- > 0;) {
      auto const p = micro.backward(matrices.units[unit]);
      for (auto const& param : matrices.params[unit]) {
        auto const gradient = p.grad(param).accumulator();
        for (std::int64_t i = 0; i < gradient.count(); ++i) {
          gradient.data()[i] = seed * number(i);
        }
      }
    }
  }
}

struct Update {
  double seconds = 0;
  double processor_seconds = 0;  ///< Processor time of all threads, divided by the number of ranks. Excludes other
                                 ///< programs.
  MemoryBytes planned;
};

/// Times an update after its gradients have been reduced: rank 0's median of three.
Update update_of(Variant const& variant) {
  Update result;
  int const status = launch({.thread_ranks = variant.ranks}, [&](Job& job) {
    Matrices const matrices;
    Engine<float> engine{job, matrices.model, config_of(variant)};
    std::vector<double> spent, processor;
    for (int step = 0; step < 4; ++step) {  // the first one warms pages and caches
      fill_gradients(engine, matrices);
      static_cast<void>(engine.gradient_norm());  // all ranks have arrived
      auto const before = std::clock();
      spent.push_back(bench::seconds([&] {
        static_cast<void>(engine.step());
        static_cast<void>(engine.finish());
      }));
      processor.push_back(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC / variant.ranks);
    }
    if (job.rank() == 0) {
      auto const median = [](std::vector<double> const& of) {
        return bench::quantile({of.begin() + 1, of.end()}, 0.5);
      };
      result = {median(spent), median(processor), engine.planned()};
    }
  });
  if (status != 0) {
    std::exit(status);
  }
  return result;
}

void one_update(int ranks) {
  Variant const variant{"Muon", ranks, static_cast<bool>(fast_products())};
  std::cout << Line{{"benchmark", "muon_update"},
                    {"products", variant.onednn ? "oneDNN" : "own"},
                    {"ranks", ranks},
                    {"ms", 1e3 * update_of(variant).seconds}}
                   .dump()
            << std::endl;
}

void updates(int rounds) {
  std::vector<Variant> variants;
  for (int const ranks : {1, 2}) {
    for (auto const* const optimizer : {"AdamW", "Lamb", "Muon"}) {
      variants.push_back({optimizer, ranks});
    }
    if (fast_products()) {
      variants.push_back({"Muon", ranks, true});
    }
  }
  std::map<Variant, std::vector<double>> seconds, processor;
  std::map<Variant, MemoryBytes> planned;
  for (int round = 0; round < rounds; ++round) {
    for (auto const& variant : variants) {
      auto const update = update_of(variant);
      seconds[variant].push_back(update.seconds);
      processor[variant].push_back(update.processor_seconds);
      planned[variant] = update.planned;
    }
  }
  for (auto const& variant : variants) {
    auto const ratio = [&](auto& of, Variant const& other, double at) {
      std::vector<double> ratios;
      for (std::size_t round = 0; round < of[variant].size(); ++round) {
        ratios.push_back(of[variant][round] / of[other][round]);
      }
      return bench::quantile(ratios, at);
    };
    auto const ratio_to = [&](Variant const& other, double at) { return ratio(seconds, other, at); };
    Variant const adamw{"AdamW", variant.ranks}, alone{variant.optimizer, 1, variant.onednn};
    auto const& bytes = planned[variant];
    std::cout << Line{{"benchmark", "muon_update"},
                      {"optimizer", variant.optimizer},
                      {"products", variant.optimizer != "Muon" ? ""
                                   : variant.onednn            ? "oneDNN"
                                                               : "own"},
                      {"ranks", variant.ranks},
                      {"rounds", rounds},
                      {"ms", 1e3 * bench::quantile(seconds[variant], 0.5)},
                      {"over_one_rank", ratio_to(alone, 0.5)},
                      {"over_one_rank_quartiles", {ratio_to(alone, 0.25), ratio_to(alone, 0.75)}},
                      {"processor_ms_per_rank", 1e3 * bench::quantile(processor[variant], 0.5)},
                      {"processor_over_one_rank", ratio(processor, alone, 0.5)},
                      {"over_adamw", ratio_to(adamw, 0.5)},
                      {"over_adamw_quartiles", {ratio_to(adamw, 0.25), ratio_to(adamw, 0.75)}},
                      {"optimizer_bytes", bytes.optimizer},
                      {"scratch_bytes", bytes.scratch},
                      {"optimizer_bytes_over_adamw",
                       static_cast<double>(bytes.optimizer) / static_cast<double>(planned[adamw].optimizer)}}
                     .dump()
              << std::endl;
  }
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  CLI::App app{"Products, matrices and updates of Muon"};
  int rounds = 7;
  app.add_option("ROUNDS", rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  int ranks = 0;
  app.add_option("--update", ranks, "measures only an update by Muon at this many ranks, once")
      ->check(zeroth::bench::count);
  CLI11_PARSE(app, argc, argv);
  if (ranks > 0) {
    zeroth::one_update(ranks);
    return 0;
  }
  zeroth::product(768, 3072, 768, rounds);
  zeroth::orthogonal(768, 3072, rounds);
  zeroth::orthogonal(384, 1536, rounds);
  zeroth::gram(768, 3072, rounds);
  zeroth::gram(768, 768, rounds);
  zeroth::updates(rounds);
}
