// SPDX-License-Identifier: Apache-2.0
/// A call that was rejected before anything was enqueued has no effect: a program that catches the error trains on as
/// if the call had not been made.
#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

struct Result {
  std::vector<StepReport> reports;
  std::vector<float> weights;
};

/// Makes calls that fail, at every place of the loop. Returns the number of failures.
template <class F>
int refused(F const& call) {
  try {
    call();
  } catch (ContractError const&) {
    return 1;
  }
  return 0;
}

Result train_with_mistakes(Job& job, int stage, bool mistakes, int& refusals) {
  SmallModel const small;
  SmallModel const other;
  Engine<float> engine{job, small.model, small_config(stage)};
  auto const attempt = [&](auto const& call) { refusals += mistakes ? refused(call) : 0; };
  auto const between = [&] {
    attempt([&] { static_cast<void>(engine.evaluation(0)); });
    attempt([&] { engine.step({.learning_rate = -1}); });
  };
  Result result;
  for (int step = 0; step < 3; ++step) {
    attempt([&] { engine.step(); });
    for (auto micro : engine.micro_steps()) {
      attempt([&] { all_micro_steps(engine, small); });
      attempt([&] { engine.step(); });
      attempt([&] { engine.finish(); });
      attempt([&] { static_cast<void>(engine.evaluation(1)); });
      attempt([&] { engine.save_weights("/nowhere"); });
      attempt([&] { engine.load_weights("/nowhere"); });
      attempt([&] { auto const p = micro.forward(other.units[0]); });
      for (auto const unit : small.units) {
        auto const p = micro.forward(unit);
        attempt([&] { auto const q = micro.forward(unit); });
        attempt([&] { micro.skip(unit); });
        attempt([&] { static_cast<void>(p[other.weights[0]]); });
      }
      attempt([&] { static_cast<void>(micro.report_loss(1, {.weight = NAN})); });
      float const seed = micro.report_loss(loss_of(micro.first_sample()));
      attempt([&] { static_cast<void>(micro.report_loss(2)); });
      attempt([&] { micro.skip(); });
      for (auto u = small.units.size(); u-- > 0;) {
        {
          auto const p = micro.backward(small.units[u]);
          attempt([&] { static_cast<void>(p.grad(small.frozen)); });
          attempt([&] { static_cast<void>(p.grad(other.weights[u])); });
          attempt([&] { auto const q = micro.backward(small.units[u]); });
          contribute(p, small.weights[u], micro.first_sample(), seed);
        }
        attempt([&] { auto const q = micro.backward(small.units[u]); });
        attempt([&] { micro.skip(small.units[u]); });
      }
    }
    attempt([&] { all_micro_steps(engine, small); });
    between();
    if (auto const report = engine.step()) {
      result.reports.push_back(*report);
    }
  }
  if (auto const report = engine.finish()) {
    result.reports.push_back(*report);
  }
  result.weights = read_weights(engine, small);
  return result;
}

std::vector<std::uint32_t> bits_of(Result const& result) {
  std::vector<std::uint32_t> bits;
  for (auto const& report : result.reports) {
    bits.push_back(std::bit_cast<std::uint32_t>(report.loss));
    bits.push_back(std::bit_cast<std::uint32_t>(report.grad_norm));
  }
  for (auto const value : result.weights) {
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

}  // namespace

TEST_CASE("rejected calls do not change training") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int const world : {1, 2}) {
      INFO(fmt::format("stage {}, {} ranks", stage, world));
      auto const run = [&](bool mistakes, int& refusals) {
        std::vector<Result> results(static_cast<std::size_t>(world));
        std::vector<int> counts(static_cast<std::size_t>(world), 0);
        auto const outcome = run_job(world, [&](Job& job) {
          auto const rank = static_cast<std::size_t>(job.rank());
          results[rank] = train_with_mistakes(job, stage, mistakes, counts[rank]);
        });
        REQUIRE(messages_of(outcome).empty());
        refusals = counts.front();
        return bits_of(results.front());
      };
      int refusals = 0;
      auto const undisturbed = run(false, refusals);
      CHECK(refusals == 0);
      CHECK(run(true, refusals) == undisturbed);
      // 3 steps of 2 micro-steps: 7 at the start of each, 9 in forward, 3 at the loss, 15 in backward; 4 around a step.
      CHECK(refusals == 3 * (2 * (7 + 9 + 3 + 15) + 4));
    }
  }
}

}  // namespace zeroth::testing
