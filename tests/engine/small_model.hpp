// SPDX-License-Identifier: Apache-2.0
/// A model of three units and a training loop, used and misused by tests of the engine's calls.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/job.hpp"
#include "support/synthetic.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing {

struct SmallModel {
  /// `count`: trainable elements per unit. The first `kept` units are not resharded after forward.
  explicit SmallModel(std::int64_t count = 300, std::uint64_t seed = 3, int kept = 0)
      : model{seed}, frozen{add(count, kept)} {}

  Model model;
  std::vector<Unit> units;
  std::vector<Param<1>> weights;
  Param<1> frozen;

 private:
  Param<1> add(std::int64_t count, int kept) {
    for (int u = 0; u < 3; ++u) {
      auto const name = fmt::format("block{}", u);
      units.push_back(model.unit(name, {.reshard_after_forward = u >= kept}));
      weights.push_back(model.param(units.back(), name + ".w", {count}, Normal{0.5F}));
    }
    return model.param(units[1], "block1.frozen", {50}, Constant{2}, {.trainable = false});
  }
};

struct SmallFile {
  int accumulation = 2;
  int micro_batch = 2;
  int timeout_ms = 120'000;
  std::string zero = {};    ///< More keys of zero_optimization, each with a leading comma.
  std::string zeroth = {};  ///< More keys of the zeroth section, each with a leading comma.
  std::string more = {};    ///< More sections, each with a leading comma.
};
inline Config small_config(int stage, SmallFile const& file = {}) {
  return Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": {}, "gradient_accumulation_steps": {},
           "zero_optimization": {{"stage": {} {}}},
           "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01, "weight_decay": 0.1}}}},
           "zeroth": {{"timeout_ms": {} {}}} {}}})",
      file.micro_batch, file.accumulation, stage, file.zero, file.timeout_ms, file.zeroth, file.more));
}

template <Element T>
void forward(Pass<T>& pass, SmallModel const& small) {
  for (auto const unit : small.units) {
    auto const p = pass.forward(unit);
  }
}

/// Adds a contribution that depends on the parameter, the sample and the element.
template <Element T, GradientOf<T> G>
void contribute(Backward<T, G> const& p, Param<1> const& param, std::int64_t sample, float seed) {
  auto const value = p[param];
  auto const grad = p.grad(param);
  for (std::int64_t i = 0; i < value.count(); ++i) {
    float const old = grad.beta() == 0 ? 0.0F : to_float(grad.data()[i]);
    grad.data()[i] = from_float<G>(old + seed * (0.1F * to_float(value.data()[i]) + 0.2F * noise(sample, i)));
  }
}

template <Element T, GradientOf<T> G>
void backward(MicroStep<T, G>& micro, SmallModel const& small, std::size_t u, float seed) {
  auto const p = micro.backward(small.units[u]);
  contribute(p, small.weights[u], micro.first_sample(), seed);
}

template <Element T, GradientOf<T> G>
void backward(MicroStep<T, G>& micro, SmallModel const& small, float seed) {
  for (auto u = small.units.size(); u-- > 0;) {
    backward(micro, small, u, seed);
  }
}

/// A loss that differs by sample.
[[nodiscard]] inline float loss_of(std::int64_t sample) { return 1.5F + 0.5F * noise(sample, 7); }

template <Element T, GradientOf<T> G>
void micro_step(MicroStep<T, G>& micro, SmallModel const& small, float weight = 1) {
  forward(micro, small);
  backward(micro, small, micro.report_loss(loss_of(micro.first_sample()), {.weight = weight}));
}

template <Element T, GradientOf<T> G>
void all_micro_steps(Engine<T, G>& engine, SmallModel const& small) {
  for (auto micro : engine.micro_steps()) {
    micro_step(micro, small);
  }
}

/// Trains `steps` steps with micro-steps by `each(micro, step)`, and returns all reports.
template <Element T, GradientOf<T> G, class F>
std::vector<StepReport> train(Engine<T, G>& engine, int steps, F const& each) {
  std::vector<StepReport> reports;
  for (int step = 0; step < steps; ++step) {
    for (auto micro : engine.micro_steps()) {
      each(micro, step);
    }
    if (auto const report = engine.step()) {
      reports.push_back(*report);
    }
  }
  if (auto const report = engine.finish()) {
    reports.push_back(*report);
  }
  return reports;
}

/// Trains `steps` normal steps.
template <Element T, GradientOf<T> G>
std::vector<StepReport> train(Engine<T, G>& engine, SmallModel const& small, int steps) {
  return train(engine, steps, [&](auto& micro, int) { micro_step(micro, small); });
}

/// Every unit's weights, read through guards in an evaluation pass.
template <Element T, GradientOf<T> G>
std::vector<float> read_weights(Engine<T, G>& engine, SmallModel const& small) {
  std::vector<float> values;
  for (auto pass : engine.evaluation(1)) {
    for (std::size_t u = 0; u < small.units.size(); ++u) {
      auto const p = pass.forward(small.units[u]);
      auto const view = p[small.weights[u]];
      for (std::int64_t i = 0; i < view.count(); ++i) {
        values.push_back(to_float(view.data()[i]));
      }
    }
    pass.report_loss(0);
  }
  return values;
}

/// For any thread: Catch's assertions work on the main thread only.
inline void expect(bool good, char const* what) {
  if (!good) {
    throw std::runtime_error{what};
  }
}

/// Whether it is an E, or derived from E.
template <class E>
[[nodiscard]] bool holds(std::exception_ptr const& error) {
  try {
    if (error) {
      std::rethrow_exception(error);
    }
  } catch (E const&) {
    return true;
  } catch (...) {
  }
  return false;
}

}  // namespace zeroth::testing
