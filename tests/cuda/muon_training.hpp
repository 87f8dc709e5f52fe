// SPDX-License-Identifier: Apache-2.0
/// A model with matrices, trained by Muon on GPUs or on the CPU.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cuda/cuda_access.hpp"
#include "cuda/trained.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::testing {

/// Matrices that are wide, tall, square and of one row, in units with and without other parameters. No number of ranks
/// divides them.
struct Matrices {
  struct Block {
    Unit unit;
    std::vector<AnyParam> params;
  };
  Model model{5};
  std::vector<Block> blocks;

  Matrices() {
    auto const first = model.unit("first");
    auto const wide = model.param(first, "first.wide", {7, 61}, Normal{0.3F}, {.matrix = true});
    auto const bias = model.param(first, "first.bias", {61}, Constant{0.1F}, {.weight_decay_factor = 0});
    auto const tall = model.param(first, "first.tall", {61, 13}, Normal{0.3F}, {.matrix = true});
    blocks.push_back({first, {wide, bias, tall}});
    auto const second = model.unit("second");
    blocks.push_back({second, {model.param(second, "second.square", {33, 33}, Normal{0.2F}, {.matrix = true})}});
    auto const last = model.unit("last");
    auto const row = model.param(last, "last.row", {1, 40}, Normal{0.2F}, {.matrix = true});
    blocks.push_back({last, {row, model.param(last, "last.norm", {13}, Constant{1})}});
  }
};

struct MatrixOptions {
  MakeAccess access = CudaAccess::make;
  int overflow_at = -1;  ///< The step in which a gradient is infinite.
  std::function<void(int step)> before_step = [](int) {};
};

template <Element T, GradientOf<T> G, class Guard>
void add_gradient(Access& access, Guard const& p, AnyParam const& param, float seed, std::int64_t sample,
                  bool overflows) {
  auto const view = p[param];
  auto const gradient = p.grad(param);
  auto const* const values = static_cast<T const*>(access.read(view.data, view.count * std::int64_t{sizeof(T)}));
  auto* const sums = static_cast<G*>(access.edit(gradient.data(), view.count * std::int64_t{sizeof(G)}));
  for (std::int64_t i = 0; i < view.count; ++i) {
    float const fresh = overflows && i == 3 ? HUGE_VALF : seed * (0.1F * to_float(values[i]) + noise(sample, i));
    sums[i] = from_float<G>((gradient.beta() == 0 ? 0.0F : to_float(sums[i])) + fresh);
  }
  access.commit();
}

template <Element T, GradientOf<T> G>
Trained train_matrices(Job& job, Config const& config, MatrixOptions const& options) {
  Matrices const matrices;
  AnyEngine engine{job, matrices.model, config};
  auto const access = options.access(engine.compute_stream());
  Trained result;
  auto const note = [&](std::optional<StepReport> const& report) {
    if (report) {
      result.reports.push_back(*report);
    }
  };
  for (int step = 0; step < 4; ++step) {
    options.before_step(step);
    for (auto micro : engine.micro_steps()) {
      for (auto const& block : matrices.blocks) {
        auto const p = micro.forward(block.unit);
      }
      auto const seed = micro.report_loss(1.0F);
      for (auto block = matrices.blocks.rbegin(); block != matrices.blocks.rend(); ++block) {
        auto const p = micro.backward(block->unit);
        for (auto const& param : block->params) {
          add_gradient<T, G>(*access, p, param, seed, micro.first_sample(), step == options.overflow_at);
        }
      }
    }
    note(engine.step());
  }
  note(engine.finish());
  auto const& params = matrices.model.description().params;
  for (std::uint32_t param = 0; param < params.size(); ++param) {
    std::vector<float> values(static_cast<std::size_t>(params[ParamId{param}].count));
    engine.read(matrices.model.param_at(param), values);
    result.parameters.insert(result.parameters.end(), values.begin(), values.end());
  }
  result.planned = engine.planned();
  result.peak = engine.peak();
  return result;
}

/// Rank 0's results. All ranks must have the same, and have used the planned memory.
inline Trained trained_matrices(RunJob const& run, int world, std::string const& text,
                                MatrixOptions const& options = {}) {
  auto const config = Config::from_json(text);
  std::vector<Trained> results(static_cast<std::size_t>(world));
  auto const outcome = run(world, [&](Job& job) {
    with_precision(config, [&]<class T, class G>(Precision<T, G>) {
      results[static_cast<std::size_t>(job.rank())] = train_matrices<T, G>(job, config, options);
    });
  });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& result : results) {
    REQUIRE(bits_of(result) == bits_of(results.front()));
    REQUIRE(result.planned == result.peak);
  }
  return results.front();
}

inline std::string muon_file(Types const& types, int stage, int accumulation = 2, char const* more_of_muon = "") {
  return fmt::format(R"({{
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": {}, {} "gradient_clipping": 0.5,
    "zero_optimization": {{"stage": {}, "reduce_bucket_size": {}, "overlap_comm": {}}},
    "optimizer": {{"type": "Muon", "params": {{"lr": 0.02, "adam_lr": 0.003, "weight_decay": 0.1 {}}}}},
    "zeroth": {{"reduce_gradients": "every_micro_step", "poison": {}, "timeout_ms": 120000}} }})",
                     accumulation, types.keys, stage, stage % 2 == 0 ? 1500 : 500'000'000, stage != 1, more_of_muon,
                     stage % 2 == 0);
}

}  // namespace zeroth::testing
