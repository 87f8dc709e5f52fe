// SPDX-License-Identifier: Apache-2.0
/// Micro-steps that run twice: results do not change, and one flipped bit is detected and named.
#include <fmt/format.h>

#include <bit>
#include <string>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"
#include "support/synthetic.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

std::string keys(int every, char const* reduce) {
  return fmt::format(R"(, "replay_every": {}, "reduce_gradients": "{}")", every, reduce);
}

/// The bits that every rank sees in three steps.
std::vector<std::uint32_t> bits_of_training(Config const& config) {
  std::vector<std::uint32_t> bits;
  auto const outcome = run_job(2, [&](Job& job) {
    auto const trained = train_synthetic(job, config, {});
    if (job.rank() == 0) {
      bits = bits_of(trained);
    }
  });
  CHECK(messages_of(outcome) == "");
  return bits;
}

/// Rank 1 flips a bit in the gradient of the second unit at the second run of step 2's first micro-step.
std::string message_of_flip(int stage, char const* reduce) {
  SmallModel const small;
  auto const config = small_config(stage, {.zeroth = keys(2, reduce)});
  auto const outcome = run_job(2, [&](Job& job) {
    Engine<float> engine{job, small.model, config};
    int runs = 0;
    train(engine, 3, [&](auto& micro, int step) {
      forward(micro, small);
      float const seed = micro.report_loss(loss_of(micro.first_sample()));
      bool const flips = job.rank() == 1 && step == 1 && ++runs == 2;
      for (auto u = small.units.size(); u-- > 0;) {
        auto const p = micro.backward(small.units[u]);
        contribute(p, small.weights[u], micro.first_sample(), seed);
        if (flips && u == 1) {
          auto& value = p.grad(small.weights[u]).data()[217];
          value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1U);
        }
      }
    });
  });
  return messages_of(outcome);
}

TEST_CASE("a micro-step that runs twice changes nothing") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (char const* const reduce : {"every_micro_step", "last_micro_step"}) {
      for (char const* const dtype : {"", R"(, "bf16": {"enabled": true})", R"(, "fp16": {"enabled": true})"}) {
        INFO(fmt::format("stage {}, {} {}", stage, reduce, dtype));
        auto const trained = [&](int every) {
          return bits_of_training(
              small_config(stage, {.accumulation = 3, .zeroth = keys(every, reduce), .more = dtype}));
        };
        auto const base = trained(0);
        CHECK(base.size() > 100);
        CHECK(trained(1) == base);
        CHECK(trained(2) == base);
      }
    }
  }
}

TEST_CASE("a step whose first micro-step runs twice has one pass more") {
  SmallModel const small;
  auto const outcome = run_job(1, [&](Job& job) {
    Engine<float> engine{job, small.model, small_config(2, {.accumulation = 3, .zeroth = keys(2, "every_micro_step")})};
    std::vector<std::vector<std::int64_t>> samples(4);
    std::vector<int> again(4);
    train(engine, 4, [&](auto& micro, int step) {
      samples[static_cast<std::size_t>(step)].push_back(micro.first_sample());
      again[static_cast<std::size_t>(step)] += micro.runs_again() ? 1 : 0;
      micro_step(micro, small);
    });
    expect(samples[0] == std::vector<std::int64_t>{0, 2, 4}, "step 1");
    expect(samples[1] == std::vector<std::int64_t>{6, 6, 8, 10}, "step 2");
    expect(samples[3] == std::vector<std::int64_t>{18, 18, 20, 22}, "step 4");
    expect(again == std::vector<int>{0, 1, 0, 1}, "runs_again()");
  });
  CHECK(messages_of(outcome) == "");
}

TEST_CASE("a flipped bit in one rank's gradient is found and reported at every stage") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (char const* const reduce : {"every_micro_step", "last_micro_step"}) {
      INFO(fmt::format("stage {}, {}", stage, reduce));
      auto const message = message_of_flip(stage, reduce);
      CHECK_THAT(message, Contains("[rank 1/2] step 2: the first micro-step ran twice (zeroth.replay_every), and the "
                                   "gradient of parameter \"block1.w\" of unit \"block1\" differs"));
    }
  }
}

TEST_CASE("a program that reports two losses for the same samples gets an error") {
  SmallModel const small;
  auto const outcome = run_job(2, [&](Job& job) {
    Engine<float> engine{job, small.model, small_config(1, {.zeroth = keys(1, "every_micro_step")})};
    int runs = 0;
    train(engine, 1, [&](auto& micro, int /*step*/) {
      forward(micro, small);
      backward(micro, small, micro.report_loss(job.rank() == 1 ? static_cast<float>(++runs) : 1.0F));
    });
  });
  CHECK_THAT(messages_of(outcome),
             Contains("[rank 1/2] step 1: the first micro-step ran twice (zeroth.replay_every), and "
                      "its loss was 1 and then 2") &&
                 Contains("Take samples by first_sample()"));
}

}  // namespace
}  // namespace zeroth::testing
