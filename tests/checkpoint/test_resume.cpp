// SPDX-License-Identifier: Apache-2.0
/// Training that was saved and goes on, at the same or at another stage, on as many or on other ranks.
#include <fmt/format.h>

#include <atomic>
#include <string>
#include <vector>

#include "runs.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "zeroth/checkpoint/folder.hpp"

namespace zeroth::testing {
namespace {

constexpr int steps = 6;

/// What `saved` and `restored` train together is what `restored` trains alone: reports, weights and all states.
void check_resume(int world, std::string const& saved, std::string const& restored, int at = 3, float overflow_at = 0) {
  Folder const folder;
  auto const run = [&](std::string const& text, TrainOptions options) {
    options.overflow_at_step = overflow_at;
    return train(world, text, options);
  };
  auto const straight = run(restored, saving(folder / "straight", steps, steps));
  run(saved, saving(folder / "first", at, at));
  auto const resumed = run(restored, resuming(folder / "first", steps, folder / "second"));
  REQUIRE(resumed.reports.size() == static_cast<std::size_t>(steps - at));
  REQUIRE(resumed.reports.front().step == at + 1);
  REQUIRE(bits_behind(at, resumed) == bits_behind(at, straight));
  REQUIRE(states_in(folder / "second/step_00000006") == states_in(folder / "straight/step_00000006"));
}

}  // namespace

TEST_CASE("a run that was saved at one stage goes on at any other as if it had not ended") {
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  for (int saved = 0; saved <= 3; ++saved) {
    for (int restored = 0; restored <= 3; ++restored) {
      if (sanitized && restored != 3 - saved) {
        continue;
      }
      INFO(fmt::format("{}, saved at stage {}, restored at {}", types.name, saved, restored));
      check_resume(2 + (saved + restored) % 2, varied_file(types, saved), varied_file(types, restored));
    }
  }
}

TEST_CASE("a run goes on by every optimizer") {
  auto const rule = GENERATE(from_range(all_rules()));
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  if (sanitized && types.name != fp32_types.name) {
    return;
  }
  INFO(fmt::format("{}, {}", rule.name, types.name));
  check_resume(3, varied_file(types, 1, rule.optimizer), varied_file(types, 3, rule.optimizer));
  check_resume(1, varied_file(types, 2, rule.optimizer), varied_file(types, 0, rule.optimizer));
}

TEST_CASE("a run goes on in the middle of what a loss scale has seen") {
  for (int const overflow : {2, 3, 4, 5}) {
    INFO(fmt::format("overflow in step {}", overflow));
    check_resume(3, varied_file(fp16_types, 2), varied_file(fp16_types, 3), 3, static_cast<float>(overflow));
  }
}

TEST_CASE("a run goes on from its first step, from before it, and without accumulation") {
  for (int const at : {0, 1, 5}) {
    INFO(fmt::format("saved after step {}", at));
    Folder const folder;
    auto const text = varied_file(bf16_types, 3, nullptr, 1);
    auto const straight = train(2, text, saving(folder / "straight", steps, steps));
    auto first = saving(folder / "first", at, at);
    first.begin = [&](AnyEngine& engine) {
      if (at == 0) {
        engine.save(folder / "first").wait();
      }
      return 0;
    };
    train(2, text, first);
    auto const resumed = train(2, text, resuming(folder / "first", steps, folder / "second"));
    CHECK(bits_behind(at, resumed) == bits_behind(at, straight));
    CHECK(states_in(folder / "second/step_00000006") == states_in(folder / "straight/step_00000006"));
  }
}

TEST_CASE("at another number of ranks all states are the same right after they were restored") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  Folder const folder;
  train(3, varied_file(types, 2), saving(folder / "first", 3, 3));
  auto const saved = states_in(folder / "first/step_00000003");
  for (int const world : worlds({1, 2, 4, 5, 7}, {2})) {
    for (int stage = 0; stage <= 3; ++stage) {
      INFO(fmt::format("{}, {} ranks at stage {}", types.name, world, stage));
      auto const into = folder / fmt::format("{}-{}", world, stage);
      // No steps: what was restored is saved again when training would begin.
      TrainOptions options;
      options.steps = 3;
      options.begin = [&](AnyEngine& engine) {
        auto const restored = engine.restore(folder / "first");
        engine.save(into).wait();
        return static_cast<int>(restored.step);
      };
      train(world, varied_file(types, stage), options);
      CHECK(states_in(into / "step_00000003") == saved);
    }
  }
}

TEST_CASE("a run that goes on at another world is one that began there") {
  // From the same checkpoint, at every stage, with the samples of the train batch in the same order.
  Folder const folder;
  train(4, varied_file(bf16_types, 3), saving(folder / "first", 3, 3));
  auto const base = train(2, varied_file(bf16_types, 0), resuming(folder / "first", steps, folder / "base"));
  for (int stage = 1; stage <= 3; ++stage) {
    auto const into = folder / fmt::format("stage {}", stage);
    auto const other = train(2, varied_file(bf16_types, stage), resuming(folder / "first", steps, into));
    CHECK(bits_of(other) == bits_of(base));
    CHECK(states_in(into / "step_00000006") == states_in(folder / "base/step_00000006"));
  }
}

TEST_CASE("a run that saves is one that does not") {
  auto const types = GENERATE(fp32_types, bf16_types, fp16_types, bf16_masters_and_moments);
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("{}, stage {}", types.name, stage));
    Folder const folder;
    TrainOptions options;
    options.steps = 12;
    auto const base = train(3, varied_file(types, stage), options);
    options.after_step = [&](AnyEngine& engine, int step) {
      if (step % 3 == 1) {
        static_cast<void>(engine.save(folder.path()));
      }
    };
    CHECK(bits_of(train(3, varied_file(types, stage), options)) == bits_of(base));
    CHECK(checkpoint::newest_first(folder.path()).size() == 4);
  }
}

TEST_CASE("an engine that has trained goes back to what was saved") {
  // Three steps, and back to the first of them: the rest is what came after it before.
  Folder const folder;
  auto const text = varied_file(bf16_types, 3);
  auto const straight = train(2, text, saving(folder / "straight", steps, steps));
  TrainOptions options;
  options.steps = steps;
  options.evaluates = false;
  std::atomic<int> went_back = 0;
  options.after_step = [&](AnyEngine& engine, int step) {
    if (step == 1) {
      engine.save(folder / "first").wait();
    }
    if (step == steps) {
      engine.finish();
      auto const restored = engine.restore_latest(folder / "first");
      went_back += restored && restored->step == 1 ? 1 : 0;
      engine.save(folder / "again").wait();
    }
  };
  train(2, text, options);
  CHECK(went_back == 2);
  CHECK(states_in(folder / "again/step_00000001") == states_in(folder / "first/step_00000001"));
}

}  // namespace zeroth::testing
