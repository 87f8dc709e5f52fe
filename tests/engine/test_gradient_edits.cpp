// SPDX-License-Identifier: Apache-2.0
/// A program reads and changes gradients between their reduction and the update.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/dtype_sets.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

float value_at(ReducedGradient const& gradient, std::int64_t i) {
  return gradient.dtype == Dtype::bf16 ? to_float(static_cast<bf16 const*>(gradient.data)[i])
                                       : static_cast<float const*>(gradient.data)[i];
}

/// One step on `world` ranks with `edit` of each rank; returns rank 0's report and weights.
struct Made {
  StepReport report;
  std::vector<float> weights;
  float norm_ahead = 0;
};
template <class EditOf>
Made one_step(int world, Config const& config, EditOf const& edit_of) {
  Made made;
  auto const outcome = run_job(world, [&](Job& job) {
    SmallModel const small;
    with_precision(config, [&]<Element T, GradientOf<T> G>(Precision<T, G>) {
      Engine<T, G> engine{job, small.model, config};
      all_micro_steps(engine, small);
      engine.edit_gradients(edit_of(job.rank()));
      auto const norm = engine.gradient_norm();
      engine.step();
      auto const report = engine.finish().value();
      auto const weights = read_weights(engine, small);
      if (job.rank() == 0) {
        made = {report, weights, norm};
      }
    });
  });
  REQUIRE(messages_of(outcome) == "");
  return made;
}

constexpr auto unchanged = [](int) { return [](ReducedGradient const&) {}; };

}  // namespace

TEST_CASE("every element of every gradient is shown, in its parameter's place, scaled to the mean loss") {
  int const stage = GENERATE(0, 1, 2, 3);
  int const world = GENERATE(1, 3);
  auto const* const loss_scale = GENERATE("", R"(, "fp16": {"enabled": true, "loss_scale": 64},
                                                  "data_types": {"grad_accum_dtype": "fp32"})");
  INFO(fmt::format("stage {}, {} ranks{}", stage, world, loss_scale));
  std::vector<std::map<std::string, std::map<std::int64_t, double>>> seen(static_cast<std::size_t>(world));
  auto const made = one_step(world, small_config(stage, {.more = loss_scale}), [&](int rank) {
    return [&of_rank = seen[static_cast<std::size_t>(rank)]](ReducedGradient const& gradient) {
      for (std::int64_t i = 0; i < gradient.count; ++i) {
        of_rank[std::string{gradient.parameter}][gradient.first + i] =
            static_cast<double>(value_at(gradient, i)) * gradient.scale;
      }
    };
  });
  std::map<std::string, std::map<std::int64_t, double>> all;
  for (auto const& of_rank : seen) {
    for (auto const& [name, elements] : of_rank) {
      for (auto const& [index, value] : elements) {
        auto const [at, is_new] = all[name].emplace(index, value);
        CHECK((is_new || stage == 0));
        CHECK(at->second == value);
      }
    }
  }
  REQUIRE(all.size() == 3);  // without the frozen parameter
  double squares = 0;
  for (auto const& [name, elements] : all) {
    CHECK(elements.size() == 300);
    CHECK(elements.rbegin()->first == 299);
    for (auto const& [index, value] : elements) {
      squares += value * value;
    }
  }
  CHECK(std::sqrt(squares) == Approx(made.report.grad_norm).epsilon(1e-5));
  CHECK(seen[0].at("block0.w").size() == (stage == 0 ? 300U : seen[0].at("block0.w").size()));
}

TEST_CASE("a function that changes nothing changes no bits, and one that does decides norm and update at every stage") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters);
  auto const* const zeroth = GENERATE("", R"(, "delayed_update": true)");
  bool const delays = std::string{zeroth}.find("delayed") != std::string::npos;
  auto const config = [&](int stage) {
    return small_config(stage, {.zeroth = fmt::format(R"(, "reduce_gradients": "every_micro_step"{})", zeroth)})
        .with(fmt::format(R"({{{} "gradient_clipping": 0.7, "optimizer": {{"type": "SGD", "params": {{"lr": 0.1}}}}}})",
                          types.keys));
  };
  auto const clip = [](int) {
    return [](ReducedGradient const& gradient) {
      auto const most = static_cast<float>(0.05 / gradient.scale);
      for (std::int64_t i = 0; i < gradient.count; ++i) {
        auto const value = std::clamp(value_at(gradient, i), -most, most);
        if (gradient.dtype == Dtype::bf16) {
          static_cast<bf16*>(gradient.data)[i] = from_float<bf16>(value);
        } else {
          static_cast<float*>(gradient.data)[i] = value;
        }
      }
    };
  };
  INFO(types.name << zeroth);
  auto const plain = one_step(3, config(0), unchanged);
  auto const base = one_step(3, config(0), clip);
  CHECK(base.report.grad_norm < plain.report.grad_norm);
  CHECK(base.report.grad_norm <= Approx(0.05 * std::sqrt(900.0)).epsilon(0.01));
  CHECK(base.norm_ahead == base.report.grad_norm);
  CHECK(base.weights != plain.weights);
  for (int stage = 1; stage <= (delays ? 2 : 3); ++stage) {
    INFO("stage " << stage);
    auto const same = one_step(3, config(stage), unchanged);
    CHECK(same.weights == plain.weights);
    CHECK(same.report.grad_norm == plain.report.grad_norm);
    auto const clipped = one_step(3, config(stage), clip);
    CHECK(clipped.weights == base.weights);
    CHECK(clipped.report.grad_norm == base.report.grad_norm);
  }
}

TEST_CASE("an infinite element that a function writes skips the update") {
  auto const config = small_config(2, {.more = R"(, "bf16": {"enabled": true})"});
  auto const made = one_step(2, config, [](int) {
    return [](ReducedGradient const& gradient) {
      if (gradient.parameter == "block1.w" && gradient.first == 0) {
        static_cast<float*>(gradient.data)[0] = HUGE_VALF;
      }
    };
  });
  CHECK(made.report.nonfinite);
}

TEST_CASE("edit_gradients() is refused where it cannot be, and its function's exception ends the job") {
  auto const message = [](Config const& config, auto const& use) {
    std::string text;
    auto const outcome = run_job(1, [&](Job& job) {
      SmallModel const small;
      Engine<float> engine{job, small.model, config};
      text = thrown<Error>([&] { use(engine, small); });
    });
    return text;
  };
  auto const nothing = [](ReducedGradient const&) {};
  CHECK_THAT(message(small_config(3), [&](auto& engine, auto const&) { engine.edit_gradients(nothing); }),
             Contains("edit_gradients()"));
  CHECK_THAT(message(small_config(3),
                     [&](auto& engine, auto const& small) {
                       all_micro_steps(engine, small);
                       engine.edit_gradients({});
                     }),
             Contains("edit_gradients(): the function is empty"));
  auto const one_bit = small_config(0).with(R"({"optimizer": {"type": "OneBitAdam", "params": {"freeze_step": 2}}})");
  CHECK_THAT(message(one_bit,
                     [&](auto& engine, auto const& small) {
                       all_micro_steps(engine, small);
                       engine.edit_gradients(nothing);
                     }),
             Contains("edit_gradients() with optimizer.type OneBitAdam"));
  auto const outcome = run_job(2, [&](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, small_config(1)};
    all_micro_steps(engine, small);
    engine.edit_gradients([&](ReducedGradient const&) {
      if (job.rank() == 1) {
        throw std::runtime_error{"own words"};
      }
    });
    engine.step();
    engine.finish();
  });
  CHECK_THAT(messages_of(outcome), Contains("own words"));
  auto const apart = run_job(2, [&](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, small_config(1)};
    all_micro_steps(engine, small);
    if (job.rank() == 0) {
      engine.edit_gradients(nothing);
    }
    engine.step();
    engine.finish();
  });
  CHECK_THAT(messages_of(apart), Contains("the ranks of communicator 'reduce' do different things"));
}

}  // namespace zeroth::testing
