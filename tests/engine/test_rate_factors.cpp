// SPDX-License-Identifier: Apache-2.0
/// Learning rates by parameter that change while training runs.
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

/// Two units of one parameter each.
struct Two {
  Model model;
  std::vector<Unit> units;
  std::vector<Param<1>> weights;
  Two() {
    for (std::string const name : {"0", "1"}) {
      units.push_back(model.unit("unit " + name));
      weights.push_back(model.param(units.back(), "weight " + name, {700}, Normal{0.5F}));
    }
  }
};

void step_of(Engine<float>& engine, Two const& two) {
  for (auto micro : engine.micro_steps()) {
    for (auto const unit : two.units) {
      auto const p = micro.forward(unit);
    }
    auto const seed = micro.report_loss(1);
    for (std::size_t u = two.units.size(); u-- > 0;) {
      auto const p = micro.backward(two.units[u]);
      contribute(p, two.weights[u], micro.first_sample(), seed);
    }
  }
  engine.step();
}

std::vector<float> weight_of(Engine<float>& engine, Two const& two, std::size_t u) {
  std::vector<float> values(700);
  engine.read(two.weights[u], values);
  return values;
}

/// Runs `train` on `world` ranks, and returns their errors.
template <class Train>
std::string job_of(int world, Train const& train) {
  return messages_of(run_job(world, train));
}

}  // namespace

TEST_CASE("a factor changes one parameter's rate from the next step on, and nullopt leaves the others") {
  int const stage = GENERATE(1, 3);
  auto const problem = job_of(2, [&](Job& job) {
    Two const two;
    Engine<float> engine{job, two.model, small_config(stage)};
    step_of(engine, two);
    engine.set_learning_rate_factors(
        [](std::string const& name) { return name == "weight 1" ? std::optional{0.0F} : std::nullopt; });
    auto const first = weight_of(engine, two, 0), second = weight_of(engine, two, 1);
    step_of(engine, two);
    engine.finish();
    expect(weight_of(engine, two, 0) != first, "the first one goes on");
    expect(weight_of(engine, two, 1) == second, "the second one stands still");
    engine.set_learning_rate_factors([](std::string const&) { return std::optional{1.0F}; });
    step_of(engine, two);
    engine.finish();
    expect(weight_of(engine, two, 1) != second, "the second one goes on again");
  });
  CHECK(problem == "");
}

TEST_CASE("set_learning_rate_factors() is refused where it is wrong, by name") {
  auto const refused = [](std::function<std::optional<float>(std::string const&)> const& factor_of) {
    std::string text;
    static_cast<void>(job_of(1, [&](Job& job) {
      Two const two;
      Engine<float> engine{job, two.model, small_config(3)};
      text = thrown<ContractError>([&] { engine.set_learning_rate_factors(factor_of); });
    }));
    return text;
  };
  CHECK_THAT(refused([](std::string const& name) { return std::optional{name == "weight 1" ? -1.0F : 1.0F}; }),
             Contains("set_learning_rate_factors(): -1 for parameter \"weight 1\", must be 0 or more and finite"));
  CHECK_THAT(refused([](std::string const&) { return std::optional{std::numeric_limits<float>::infinity()}; }),
             Contains("inf for parameter \"weight 0\""));
  CHECK_THAT(refused({}), Contains("the function is empty"));
  auto const apart = job_of(2, [](Job& job) {
    Two const two;
    Engine<float> engine{job, two.model, small_config(2)};
    engine.set_learning_rate_factors([&](std::string const&) { return std::optional<float>(job.rank() + 1); });
    step_of(engine, two);
    step_of(engine, two);
    engine.finish();
  });
  CHECK_THAT(apart, Contains("set_learning_rate_factors()"));
}

}  // namespace zeroth::testing
