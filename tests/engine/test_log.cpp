// SPDX-License-Identifier: Apache-2.0
/// An engine's unrequested messages: defaults that depend on the stage, sums in 16 bits, gradients that are not finite.
/// Each comes once, from one rank.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/reports.hpp"
#include "support/log.hpp"

namespace zeroth::testing {
namespace {

bool finite(std::vector<float> const& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

Config with_skip(int stage, char const* skip, char const* more = "") {
  return small_config(stage,
                      {.accumulation = 1, .zeroth = fmt::format(R"(, "skip_nonfinite": {})", skip), .more = more});
}

/// Trains two ranks; in the second of four steps a gradient of rank 1 is NaN.
std::vector<Seen> train_with_nan(Config const& config) {
  return run(2, config, [](Job& job, Engine<float>& engine, SmallModel const& small) {
    Seen seen;
    seen.reports = train(engine, 4, [&](auto& micro, int step) {
      forward(micro, small);
      float const seed = micro.report_loss(1);
      backward(micro, small, step == 1 && job.rank() == 1 ? std::nanf("") : seed);
    });
    seen.weights = read_weights(engine, small);
    return seen;
  });
}

/// Trains one step on one rank with four elements of 1e19, each of which has a square that fp32 can represent.
Seen train_too_large(Config const& config) {
  return run(1, config,
             [](Job&, Engine<float>& engine, SmallModel const& small) {
               Seen seen;
               seen.reports = train(engine, 1, [&](auto& micro, int) {
                 forward(micro, small);
                 static_cast<void>(micro.report_loss(1));
                 for (auto u = small.units.size(); u-- > 0;) {
                   auto const p = micro.backward(small.units[u]);
                   auto const count = p[small.weights[u]].count();
                   auto const grad = p.grad(small.weights[u]);
                   for (std::int64_t i = 0; i < count; ++i) {
                     grad.data()[i] = u == 0 && i < 4 ? 1e19F : 0.0F;
                   }
                 }
               });
               seen.weights = read_weights(engine, small);
               return seen;
             })
      .front();
}

}  // namespace

TEST_CASE("an engine warns once that the stage determines rounding, and that many micro-steps are added in bf16") {
  auto const logged = [](SmallFile const& file) {
    Log const log;
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small;
      Engine<bf16> const engine{job, small.model, small_config(1, file)};
    });
    REQUIRE(messages_of(outcome) == "");
    return std::pair{log.count("zeroth.reduce_gradients is not set"), log.count("9 micro-steps are added up in bf16")};
  };
  char const* const narrow = R"(, "bf16": {"enabled": true})";
  char const* const wide = R"(, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"})";
  char const* const last = R"(, "reduce_gradients": "last_micro_step")";
  CHECK(logged({.accumulation = 9, .more = narrow}) == std::pair{1, 1});
  CHECK(logged({.accumulation = 9, .zeroth = last, .more = narrow}) == std::pair{0, 1});
  CHECK(logged({.accumulation = 2, .more = narrow}) == std::pair{1, 0});
  CHECK(logged({.accumulation = 9, .zeroth = last, .more = wide}) == std::pair{0, 0});
  CHECK(logged({.accumulation = 1, .more = narrow}) == std::pair{0, 0});
}

TEST_CASE("in fp32 an update with NaN is applied: every report says so, and the log once") {
  for (int stage = 0; stage <= 3; ++stage) {
    Log const log;
    INFO("stage " << stage);
    for (auto const& seen : train_with_nan(with_skip(stage, R"("auto")"))) {
      REQUIRE(seen.reports.size() == 4);
      for (std::size_t step = 0; step < 4; ++step) {
        CHECK(seen.reports[step].nonfinite == (step >= 1));  // the weights stay NaN, and gradients get some of it
        CHECK_FALSE(seen.reports[step].skipped);
      }
      CHECK_FALSE(finite(seen.weights));
    }
    CHECK(log.count("the gradient is not finite") == 1);
    CHECK(log.count("step 2: the gradient is not finite (its norm is nan)") == 1);
  }
}

TEST_CASE("with zeroth.skip_nonfinite fp32 skips such an update on all ranks, and continues") {
  for (int stage = 0; stage <= 3; ++stage) {
    Log const log;
    INFO("stage " << stage);
    for (auto const& seen : train_with_nan(with_skip(stage, "true"))) {
      REQUIRE(seen.reports.size() == 4);
      for (std::size_t step = 0; step < 4; ++step) {
        CHECK(seen.reports[step].nonfinite == (step == 1));
        CHECK(seen.reports[step].skipped == (step == 1));
      }
      CHECK(finite(seen.weights));
    }
    CHECK(log.count("the gradient is not finite") == 0);
  }
}

TEST_CASE("finite gradients whose norm overflows fp32 count as not finite") {
  for (auto const* const clipping : {"", R"(, "gradient_clipping": 0)"}) {
    auto const kept = train_too_large(with_skip(0, "false", clipping));
    REQUIRE(kept.reports.size() == 1);
    CHECK(kept.reports[0].nonfinite);
    CHECK_FALSE(kept.reports[0].skipped);
    CHECK(std::isinf(kept.reports[0].grad_norm));
    CHECK(finite(kept.weights));
    auto const skipped = train_too_large(with_skip(0, "true", clipping));
    CHECK(skipped.reports[0].nonfinite);
    CHECK(skipped.reports[0].skipped);
  }
}

}  // namespace zeroth::testing
