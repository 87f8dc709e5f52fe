// SPDX-License-Identifier: Apache-2.0
/// Saved training resumes at the same or another stage, on the same or another number of ranks.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "parity/tiers.hpp"
#include "runs.hpp"
#include "small_run.hpp"
#include "support/log.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "zeroth/checkpoint/folder.hpp"

namespace zeroth::testing {
namespace {

constexpr int steps = 6;

/// Checks that `saved` and then `restored` train the same as `restored` alone: reports, weights and all states.
void check_resume(int world, Config const& saved, Config const& restored, int at = 3, float overflow_at = 0) {
  Folder const folder;
  auto const run = [&](Config const& text, TrainOptions options) {
    options.overflow_at_step = overflow_at;
    return train(world, text, options);
  };
  auto const straight = run(restored, saving(folder / "straight", steps, steps));
  run(saved, saving(folder / "first", at, at));
  auto const resumed = run(restored, resuming(folder / "first", steps, folder / "second"));
  REQUIRE(resumed.reports.size() == static_cast<std::size_t>(steps - at));
  REQUIRE(resumed.reports.front().step == at + 1);
  REQUIRE(bits_behind(at, resumed) == bits_behind(at, straight));
  REQUIRE(!resumed.evaluations.empty());  // evaluations run between steps
  REQUIRE(std::ranges::equal(resumed.evaluations, std::span{straight.evaluations}.last(resumed.evaluations.size())));
  REQUIRE(states_in(folder / "second/step_00000006") == states_in(folder / "straight/step_00000006"));
}

void check_resume(int world, std::string const& saved, std::string const& restored, int at = 3, float overflow_at = 0) {
  check_resume(world, Config::from_json(saved), Config::from_json(restored), at, overflow_at);
}

}  // namespace

TEST_CASE("a run that was saved at one stage resumes at any other as if it had not been interrupted") {
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  for (int saved = 0; saved <= 3; ++saved) {
    for (int restored = 0; restored <= 3; ++restored) {
      static Sample sample{23, 5};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{}, saved at stage {}, restored at {}", types.name, saved, restored));
      check_resume(2 + (saved + restored) % 2, varied_file(types, saved), varied_file(types, restored));
    }
  }
}

TEST_CASE("a run resumes with every optimizer") {
  auto const rule = GENERATE(from_range(trained_rules()));
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  static Sample sample{11, 5};
  if (sample.leaves_out() || (!has_bf16_states(rule) && types.name == bf16_masters_and_moments.name)) {
    return;
  }
  INFO(fmt::format("{}, {}", rule.name, types.name));
  check_resume(3, varied_file(types, 1, rule.optimizer), varied_file(types, 3, rule.optimizer));
  check_resume(1, varied_file(types, 2, rule.optimizer), varied_file(types, 0, rule.optimizer));
}

TEST_CASE("a run resumes wherever its states were before and are now") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  if (sanitized && types.name != bf16_types.name) {
    return;
  }
  Folder const disk;
  std::size_t next = 0;
  Sample sample{7, 3};
  auto const check = [&](int world, Config const& saved, Config const& restored) {
    if (!sample.leaves_out()) {
      check_resume(world, saved, restored);
    }
  };
  for (int stage = 0; stage <= 3; ++stage) {
    auto const memory = [&](int of) { return Config::from_json(varied_file(types, of)); };
    auto const file = [&](int of) { return on_disk(memory(of), on_disks[next++ % std::size(on_disks)], disk.path()); };
    INFO(fmt::format("{}, stages {} and {}", types.name, stage, 3 - stage));
    check(3, file(stage), memory(3 - stage));
    check(2, memory(stage), file(3 - stage));
    check(1, file(stage), file(3 - stage));
  }
  auto const in_groups = [&](char const* keys) {
    return Config::from_json(varied_file(types, 3)).with(fmt::format(R"({{"zero_optimization": {}}})", keys));
  };
  check(4, in_groups(R"({"zero_hpz_partition_size": 2})"),
        on_disk(in_groups(R"({"mics_shard_size": 2})"), on_disks[1], disk.path()));
  check(4, on_disk(in_groups(R"({"mics_shard_size": 2})"), on_disks[2], disk.path()),
        on_disk(in_groups(R"({"zero_hpz_partition_size": 2})"), on_disks[4], disk.path()));
  auto const all_on_disk = [&](char const* keys, std::size_t how) {
    return parameters_on_disk(on_disk(in_groups(keys), on_disks[how], disk.path()), parameters_on_disks[how],
                              disk.path());
  };
  check(4, all_on_disk(R"({"zero_hpz_partition_size": 2})", 1), in_groups(R"({"mics_shard_size": 2})"));
  check(4, all_on_disk(R"({"mics_shard_size": 2})", 2), all_on_disk(R"({"zero_hpz_partition_size": 2})", 3));
  check(4, in_groups("{}"), all_on_disk(R"({"zero_hpz_partition_size": 2})", 0));
}

TEST_CASE("a run resumes with the state of its loss scale") {
  for (int const overflow : {2, 3, 4, 5}) {
    INFO(fmt::format("overflow in step {}", overflow));
    int const stage = overflow - 2;
    check_resume(3, varied_file(fp16_types, 2), varied_file(fp16_types, 3), 3, static_cast<float>(overflow));
    check_resume(2, varied_file(fp16_types, 3 - stage), varied_file(fp16_types, stage), 3,
                 static_cast<float>(overflow));
  }
}

TEST_CASE("a run resumes with any number of micro-steps, and any rounding of their sums") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_summed_in_fp32, fp16_summed_in_fp32);
  if (sanitized && types.name != bf16_types.name) {
    return;
  }
  for (int const accumulation : {1, 3}) {
    INFO(fmt::format("{}, {} micro-steps", types.name, accumulation));
    auto const of = [&](int stage, char const* reduce) {
      return file(types, stage, accumulation, reduce, movements[stage]);
    };
    check_resume(3, of(1, "every_micro_step"), of(3, "every_micro_step"));
    check_resume(2, of(2, "last_micro_step"), of(0, "last_micro_step"));
  }
}

TEST_CASE("a run resumes from its first step, from before it, and without accumulation") {
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

TEST_CASE("a run resumes with what encoding has lost of its gradients") {
  auto const signs = [](int stage, std::string const& more = "") {
    return file(bf16_types, stage, 2, "every_micro_step", movements[stage], R"(, "reduce_codec": "sign")" + more);
  };
  check_resume(3, signs(0), signs(1));
  check_resume(2, signs(1), signs(0), 1);
  check_resume(1, signs(1), signs(1));
  auto const one_bit = [](std::size_t move) {
    auto text = file(bf16_types, 0, 2, "every_micro_step", movements[move], "",
                     R"("type": "OneBitAdam", "params": {"lr": 0.01, "weight_decay": 0.1, "freeze_step": 2})");
    std::string const clipped = R"("gradient_clipping": 0.5)";
    return text.replace(text.find(clipped), clipped.size(), R"("gradient_clipping": 0)");
  };
  for (int const at : {1, 2, 3, 5}) {
    check_resume(at % 2 + 2, one_bit(0), one_bit(1), at);
  }
  // Buffers that hold all states: the save reads them while the next step changes errors.
  check_resume(2, signs(1, R"(, "checkpoint": {"buffer_bytes": 0})"), signs(1));
}

TEST_CASE("errors of another number of ranks, or of no signs, begin at zero, and the log says so") {
  Folder const folder;
  auto const text = [](char const* codec) {
    return file(bf16_types, 1, 2, "every_micro_step", movements[1], fmt::format(R"(, "reduce_codec": "{}")", codec));
  };
  train(3, text("sign"), saving(folder / "signs", 3, 3));
  train(2, text("none"), saving(folder / "none", 3, 3));
  auto const resume = [&](int world, char const* codec, char const* from, char const* into) {
    Log const log;
    auto const trained = train(world, text(codec), resuming(folder / from, steps, folder / into));
    return std::pair{bits_of(trained), log.all()};
  };
  auto const [with_errors, quiet] = resume(3, "sign", "signs", "a");
  CHECK_THAT(quiet, !Catch::Contains("start at zero"));
  auto const [other, told] = resume(2, "sign", "signs", "b");
  CHECK_THAT(told, Catch::Contains("encoding errors of gradients or momenta start at zero: ") &&
                       Catch::Contains("has none of it for 2 data-parallel ranks"));
  auto const [first, told_too] = resume(2, "sign", "none", "c");
  CHECK_THAT(told_too, Catch::Contains("start at zero"));
  // Without signs, saved errors are left alone.
  CHECK_THAT(resume(3, "none", "signs", "d").second, !Catch::Contains("start at zero"));
  auto const record = checkpoint::read_record(folder / "signs/step_00000003");
  REQUIRE(!record.contents.errors.empty());
  CHECK(checkpoint::read_record(folder / "none/step_00000003").contents.errors.empty());
}

TEST_CASE("at another number of ranks all states are the same right after a restore") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  Folder const folder;
  train(3, varied_file(types, 2), saving(folder / "first", 3, 3));
  auto const saved = states_in(folder / "first/step_00000003");
  for (int const world : worlds({1, 2, 4, 5, 7}, {2})) {
    for (int stage = 0; stage <= 3; ++stage) {
      INFO(fmt::format("{}, {} ranks at stage {}", types.name, world, stage));
      auto const into = folder / fmt::format("{}-{}", world, stage);
      // Trains no steps, but saves the restored states again where training would begin.
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

TEST_CASE("a run that resumes with another number of ranks is like one that began with it") {
  // Resumes from the same checkpoint at every stage; the samples of the train batch are in the same order.
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

TEST_CASE("every sample comes once per epoch, even if steps are lost and ranks and batches change") {
  Folder const folder;
  SampleOrder const order{97, {.seed = 4}};
  struct Part {
    int world, micro_batch, accumulation, stage, steps, saved;  // steps after the save are lost
  };
  std::vector<std::int64_t> positions;
  for (auto const& part :
       {Part{4, 2, 1, 3, 6, 4}, Part{2, 3, 2, 1, 5, 3}, Part{3, 1, 5, 2, 4, 4}, Part{1, 7, 3, 0, 6, 5}}) {
    std::vector<std::vector<std::int64_t>> seen(static_cast<std::size_t>(part.world));
    auto const config = small_config(part.stage, {.accumulation = part.accumulation, .micro_batch = part.micro_batch});
    run_small(part.world, config, [&](auto& engine, auto& small, auto&) {
      engine.restore_latest(folder.path(), {.order = order});
      for (int step = 1; step <= part.steps; ++step) {
        for (auto micro : engine.micro_steps()) {
          for (int row = 0; row < part.micro_batch && step <= part.saved; ++row) {
            seen[static_cast<std::size_t>(this_rank().rank)].push_back(micro.first_sample() + row);
          }
          micro_step(micro, small);
        }
        engine.step();
        if (step == part.saved) {
          engine.save(folder.path(), {.program_state = {}, .order = order, .keep = {}}).wait();
        }
      }
      engine.finish();
    });
    for (auto const& each : seen) {
      positions.insert(positions.end(), each.begin(), each.end());
    }
  }
  std::ranges::sort(positions);
  REQUIRE(positions.size() == 32 + 36 + 60 + 105);
  std::vector<std::set<std::int64_t>> epochs(3);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    REQUIRE(positions[i] == static_cast<std::int64_t>(i));
    epochs[static_cast<std::size_t>(order.epoch(positions[i]))].insert(order[positions[i]]);
  }
  CHECK(epochs[0].size() == 97);
  CHECK(epochs[1].size() == 97);
  CHECK(epochs[2].size() == 233 - 2 * 97);
}

TEST_CASE("a run resumes with groups, without them, and with groups of other sizes") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  auto const text = [&](int stage, char const* keys) {
    return Config::from_json(varied_file(types, stage)).with(keys);
  };
  std::vector<std::pair<char const*, Config>> const files{
      {"stage 0", text(0, "{}")},
      {"stage 3", text(3, "{}")},
      {"hpZ 2", text(3, R"({"zero_optimization": {"zero_hpz_partition_size": 2}})")},
      {"MiCS 2 at stage 3", text(3, R"({"zero_optimization": {"mics_shard_size": 2}})")},
      {"MiCS 3 at stage 1", text(1, R"({"zero_optimization": {"mics_shard_size": 3}})")}};
  auto const straight = [&] {
    Folder const folder;
    auto const run = train(6, files[0].second, saving(folder / "straight", steps, steps));
    return std::pair{bits_behind(3, run), states_in(folder / "straight/step_00000006")};
  }();
  for (std::size_t i = 0; i < files.size(); ++i) {
    auto const& [saved, first] = files[i];
    for (auto const j : {(i + 1) % files.size(), (i + 3) % files.size()}) {
      static Sample sample{7, 3};
      if (sample.leaves_out()) {
        continue;
      }
      auto const& [restored, second] = files[j];
      INFO(fmt::format("{}, saved in {}, restored in {}", types.name, saved, restored));
      Folder const folder;
      train(6, first, saving(folder / "first", 3, 3));
      auto const resumed = train(6, second, resuming(folder / "first", steps, folder / "second"));
      REQUIRE(bits_behind(3, resumed) == straight.first);
      REQUIRE(states_in(folder / "second/step_00000006") == straight.second);
    }
  }
}

TEST_CASE("a run that saves has the bits of a run that does not") {
  auto const types = GENERATE(fp32_types, bf16_types, fp16_types, bf16_masters_and_moments);
  for (int stage = 0; stage <= 3; ++stage) {
    static Sample sample{7, 3};
    if (sample.leaves_out()) {
      continue;
    }
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
  // Trains three steps, then goes back to the first: the remaining steps repeat the earlier ones.
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
