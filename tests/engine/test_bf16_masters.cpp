// SPDX-License-Identifier: Apache-2.0
/// Training with bf16 masters: updates that rounding to nearest would lose are applied on average, and identically at
/// every stage and world size.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/job.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing {
namespace {

constexpr std::int64_t count = 5000;
constexpr float rate = 1e-4F;

struct File {
  int stage = 0;
  bool masters = true, moments = false;
  std::int64_t seed = 0;
};
Config config_of(File const& file) {
  return Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {{"stage": {}}},
           "bf16": {{"enabled": true, "bf16_master_weights_and_grads": {}, "bf16_optimizer_states": {}}},
           "optimizer": {{"type": "AdamW", "params": {{"lr": {}}}}},
           "zeroth": {{"timeout_ms": 120000, "stochastic_rounding_seed": {}}}}})",
      file.stage, file.masters, file.moments, rate, file.seed));
}

/// Two units, so that parameters do not begin at shard boundaries. Weights start at 1.
struct Weights {
  Model model;
  std::vector<Unit> units;
  std::vector<Param<1>> params;
  Weights() {
    for (std::int64_t const size : {std::int64_t{301}, count - 301}) {
      auto const name = fmt::format("u{}", units.size());
      units.push_back(model.unit(name));
      params.push_back(model.param(units.back(), name + ".w", {size}, Constant{1}));
    }
  }
};

/// The weights after `steps` steps in which every gradient is 1, so that AdamW subtracts the rate from every weight in
/// each.
std::vector<float> descend(int world, File const& file, int steps) {
  std::vector<float> result;
  auto const outcome = run_job(world, [&](Job& job) {
    Weights const weights;
    Engine<bf16> engine{job, weights.model, config_of(file)};
    for (int step = 0; step < steps; ++step) {
      for (auto micro : engine.micro_steps()) {
        for (auto const unit : weights.units) {
          auto const p = micro.forward(unit);
        }
        float const seed = micro.report_loss(1);
        for (auto u = weights.units.size(); u-- > 0;) {
          auto const p = micro.backward(weights.units[u]);
          auto const gradient = p.grad(weights.params[u]);
          std::fill_n(gradient.data(), p[weights.params[u]].count(), from_float<bf16>(seed));
        }
      }
      (void)engine.step();
    }
    (void)engine.finish();
    std::vector<float> read;
    for (auto pass : engine.evaluation(1)) {
      for (std::size_t u = 0; u < weights.units.size(); ++u) {
        auto const p = pass.forward(weights.units[u]);
        for (std::int64_t i = 0; i < p[weights.params[u]].count(); ++i) {
          read.push_back(to_float(p[weights.params[u]].data()[i]));
        }
      }
      pass.report_loss(0);
    }
    if (job.rank() == 0) {
      result = read;
    }
  });
  REQUIRE(messages_of(outcome).empty());
  REQUIRE(std::ssize(result) == count);
  return result;
}

double mean(std::vector<float> const& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("updates far below a step of bf16 move the weights on average") {
  constexpr int steps = 100;
  constexpr double expected = 1 - steps * static_cast<double>(rate);
  // With rounding to nearest no weight would ever change: the next value is 2^-8 away.
  REQUIRE(to_float(from_float<bf16>(1 - rate)) == 1);
  bool const moments = GENERATE(false, true);
  INFO((moments ? "bf16" : "fp32") << " moments");
  auto const weights = descend(2, {.stage = 3, .moments = moments}, steps);
  // One weight's deviation is about 2^-8 sqrt(steps * rate / 2^-8), and they are independent: 5 sigma of the mean.
  CHECK(mean(weights) == Approx(expected).epsilon(0).margin(5 * 0.0063 / 70));
  // Neighbouring elements are rounded independently: some changed often, some never.
  std::int64_t alike = 0;
  for (std::size_t i = 1; i < weights.size(); ++i) {
    alike += weights[i] == weights[i - 1] ? 1 : 0;
  }
  CHECK(alike < count / 4);  // the expected fraction is 0.18, since the counts are nearly Poisson with a mean of 2.56
}

TEST_CASE("rounding depends on seed, update and element, but not on stage and number of ranks") {
  bool const moments = GENERATE(false, true);
  auto const expected = descend(1, {.stage = 0, .moments = moments}, 20);
  for (int stage = 0; stage <= 3; ++stage) {
    for (int const world : {1, 2, 4}) {  // the mean of ones is one at any of these world sizes
      INFO(fmt::format("stage {}, {} ranks", stage, world));
      CHECK((descend(world, {.stage = stage, .moments = moments}, 20) == expected));
    }
  }
  auto const other = descend(2, {.stage = 2, .moments = moments, .seed = 1}, 20);
  CHECK((other != expected));
  CHECK(mean(other) == Approx(mean(expected)).epsilon(0).margin(1e-3));
  CHECK((other == descend(2, {.stage = 2, .moments = moments, .seed = 1}, 20)));
}

TEST_CASE("fp32 masters are not rounded stochastically") {
  auto const weights = descend(2, {.stage = 1, .masters = false}, 30);
  // All weights are equal, rounded to nearest from the master: 1 - 2^-8 is nearest to 0.997.
  CHECK((weights == std::vector<float>(count, 1 - 0x1p-8F)));
  CHECK((descend(2, {.stage = 1, .masters = false, .seed = 7}, 30) == weights));
}

}  // namespace zeroth::testing
