// SPDX-License-Identifier: Apache-2.0
/// Compares training with an independent implementation in fp64.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/reference.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"

namespace zeroth::testing {
namespace {

struct Case {
  int stage, world, accumulation;
  double clip;
};

std::string file(Case const& c, std::string const& keys = "") {
  return fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": {}, "gradient_clipping": {},
           "zero_optimization": {{"stage": {}}},
           "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01, "weight_decay": 0.1}}}},
           "zeroth": {{"timeout_ms": 120000}} {}}})",
      c.accumulation, c.clip, c.stage, keys);
}

Trained train(Case const& c, int steps, std::string const& keys = "") {
  auto const config = Config::from_json(file(c, keys));
  Trained result;
  auto const outcome = run_job(c.world, [&](Job& job) {
    auto trained = train_synthetic(job, config, {.steps = steps, .evaluates = false});
    if (job.rank() == 0) {
      result = std::move(trained);
    }
  });
  REQUIRE(messages_of(outcome).empty());
  REQUIRE(result.reports.size() == static_cast<std::size_t>(steps));
  return result;
}

Reference reference_for(Case const& c) {
  return Reference{{.world = c.world,
                    .accumulation = c.accumulation,
                    .micro_batch = 2,
                    .learning_rate = 0.01,
                    .weight_decay = 0.1,
                    .clip = c.clip}};
}

double largest_difference(std::vector<float> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return largest;
}

template <class F>
void for_every_case(F const& check) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int const world : {1, 2, 3}) {
      for (int const accumulation : {1, 3}) {
        for (double const clip : {0.0, 0.5}) {
          INFO(fmt::format("stage {}, {} ranks, {} micro-steps, clip {}", stage, world, accumulation, clip));
          check(Case{stage, world, accumulation, clip});
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("one step from the same state matches the fp64 reference to rounding") {
  for_every_case([](Case const& c) {
    auto const trained = train(c, 1);
    auto reference = reference_for(c);
    auto const expected = reference.step();
    CHECK(static_cast<double>(trained.reports[0].loss) == Approx(expected.loss).epsilon(1e-6));
    CHECK(static_cast<double>(trained.reports[0].grad_norm) == Approx(expected.grad_norm).epsilon(1e-6));
    // Adam's first update is lr * g / (|g| + 1e-8). If |g| is not tiny, its error is the rounding of the parameter, at
    // most 2^-24 of a value below 4. If |g| is tiny, the quotient is uncertain by the error of g over 1e-8.
    CHECK(largest_difference(trained.parameters, reference.parameters()) < 4e-6);
    // The update itself is a thousand times larger: 0.01, or 0.02 for the parameter with twice the rate.
    CHECK(largest_difference(trained.parameters, reference_for(c).parameters()) > 0.009);
  });
}

TEST_CASE("four steps stay close to the reference") {
  for_every_case([](Case const& c) {
    auto const trained = train(c, 4);
    auto reference = reference_for(c);
    for (auto const& report : trained.reports) {
      auto const expected = reference.step();
      CHECK(static_cast<double>(report.loss) == Approx(expected.loss).epsilon(2e-5));
      CHECK(static_cast<double>(report.grad_norm) == Approx(expected.grad_norm).epsilon(2e-5));
    }
    CHECK(largest_difference(trained.parameters, reference.parameters()) < 1e-4);
  });
}

TEST_CASE("16-bit training matches the reference to the rounding of 16 bits") {
  std::string const types[] = {R"(, "bf16": {"enabled": true})",
                               R"(, "fp16": {"enabled": true, "initial_scale_power": 6})",
                               R"(, "fp16": {"enabled": true, "loss_scale": 128})"};
  for (auto const& keys : types) {
    for_every_case([&](Case const& c) {
      INFO(keys);
      auto const trained = train(c, 1, keys);
      auto reference = reference_for(c);
      auto const expected = reference.step();
      // bf16 rounds by at most 2^-9; the loss is a tanh of means of rounded parameters.
      CHECK(static_cast<double>(trained.reports[0].loss) == Approx(expected.loss).epsilon(0.01));
      CHECK(static_cast<double>(trained.reports[0].grad_norm) == Approx(expected.grad_norm).epsilon(0.01));
      CHECK_FALSE(trained.reports[0].skipped);
    });
  }
}

}  // namespace zeroth::testing
