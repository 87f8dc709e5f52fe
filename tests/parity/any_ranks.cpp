// SPDX-License-Identifier: Apache-2.0
/// The same global batch trains the same, bit for bit, on any number of ranks: losses, norms, weights and all states of
/// the optimizer. This holds at every stage and dtype, with groups, with states on a disk, and if a run resumes with
/// another number of ranks.
#include <fmt/format.h>

#include <string>

#include "ended.hpp"
#include "stage_files.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

constexpr int batch = 24;

TrainOptions options_of(Types const& types) {
  TrainOptions options;
  options.batch = batch;
  options.overflow_at_step = types.keys == fp16_types.keys ? 3 : 0;
  return options;
}

Config file_of(Types const& types, int stage, int world, std::string const& more = "") {
  return Config::from_json(file(types, stage, batch / world, "every_micro_step", movements[stage],
                                R"(, "same_bits_at_any_ranks": true)" + more));
}

constexpr Types any_ranks_types[] = {fp32_types,
                                     bf16_types,
                                     fp16_types,
                                     bf16_reduced_in_fp32,
                                     {"fp32 reduced in bf16", R"("communication_data_type": "bf16",)"}};

TEST_CASE("the same batch trains the same on any number of ranks, at every stage") {
  auto const types = GENERATE(from_range(std::begin(any_ranks_types), std::end(any_ranks_types)));
  auto const base = ended(1, file_of(types, 0, 1), options_of(types));
  REQUIRE(base.second.contains("exp_avg_sq/last.w"));
  for (int const world : {1, 2, 3, 4, 6, 8, 12}) {
    for (int stage = 0; stage <= 3; ++stage) {
      static Sample sample{3};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{}, {} ranks, stage {}", types.name, world, stage));
      REQUIRE(ended(world, file_of(types, stage, world), options_of(types)) == base);
    }
  }
}

TEST_CASE("the same batch trains the same bits on any number of ranks with every codec") {
  for (auto const* const codec : {"exact", "int8", "int4"}) {
    auto const more = fmt::format(R"(, "reduce_codec": "{}")", codec);
    auto const base = ended(1, file_of(bf16_types, 0, 1, more), options_of(bf16_types));
    for (int const world : {2, 3, 6}) {
      static Sample sample{2};
      if (!sample.leaves_out()) {
        INFO(fmt::format("{}, {} ranks", codec, world));
        REQUIRE(ended(world, file_of(bf16_types, world % 4, world, more), options_of(bf16_types)) == base);
      }
    }
  }
}

TEST_CASE("the same batch trains the same bits on any number of ranks with LAMB, whose norms are exact") {
  auto const types = GENERATE(fp32_types, bf16_types);
  auto const trained = [&](int stage, int world) {
    return ended(world,
                 Config::from_json(file(types, stage, batch / world, "every_micro_step", movements[stage],
                                        R"(, "same_bits_at_any_ranks": true)", lamb().optimizer)),
                 options_of(types));
  };
  auto const base = trained(0, 1);
  REQUIRE(base != ended(1, file_of(types, 0, 1), options_of(types)));
  for (int const world : {2, 3, 4, 6}) {
    static Sample sample{2};
    if (!sample.leaves_out()) {
      INFO(fmt::format("{}, {} ranks", types.name, world));
      CHECK(trained(world % 4, world) == base);
    }
  }
}

TEST_CASE("the same batch trains the same bits in groups and with states on a disk") {
  Folder const folder;
  auto const base = ended(1, file_of(bf16_types, 0, 1), options_of(bf16_types));
  auto const with = [&](int stage, int world, std::string const& zero) {
    auto const config = file_of(bf16_types, stage, world).with(fmt::format(R"({{"zero_optimization": {{{}}}}})", zero));
    return ended(world, config, options_of(bf16_types));
  };
  auto const disk = fmt::format(
      R"("offload_optimizer": {{"device": "nvme", "nvme_path": "{}"}}, "sub_group_size": 500)", folder.path().string());
  CHECK(with(3, 4, R"("zero_hpz_partition_size": 2)") == base);
  CHECK(with(3, 6, R"("mics_shard_size": 3)") == base);
  CHECK(with(1, 6, R"("mics_shard_size": 2)") == base);
  CHECK(with(2, 3, disk) == base);
}

TEST_CASE("a run that resumes with another number of ranks trains like one that never changed") {
  Folder const folder;
  auto const types = GENERATE(fp32_types, bf16_types);
  Folder const of_whole;
  auto unchanged = options_of(types);
  unchanged.after_step = [&](AnyEngine& engine, int /*step*/) { engine.save(of_whole.path()); };
  auto const whole = train(1, file_of(types, 0, 1), unchanged);
  int const worlds[] = {6, 4, 1, 3};
  int const stages[] = {3, 1, 0, 2};
  Trained last;
  for (int step = 1; step <= 4; ++step) {
    auto options = options_of(types);
    options.steps = step;
    options.begin = [&](AnyEngine& engine) {
      return step == 1 ? 0 : static_cast<int>(engine.restore_latest(folder.path())->step);
    };
    options.after_step = [&](AnyEngine& engine, int /*step*/) { engine.save(folder.path()); };
    auto const world = worlds[step - 1];
    last = train(world, file_of(types, stages[step - 1], world), options);
    REQUIRE(last.reports.size() == 1);
    CHECK(last.reports[0].loss == whole.reports[static_cast<std::size_t>(step) - 1].loss);
    CHECK(last.reports[0].grad_norm == whole.reports[static_cast<std::size_t>(step) - 1].grad_norm);
    auto const saved = fmt::format("step_{:08}", step);
    CHECK(states_in(folder / saved) == states_in(of_whole / saved));
  }
  CHECK(last.parameters == whole.parameters);
}

TEST_CASE("a checkpoint of any number of ranks resumes on any other") {
  Folder const saved, gone_on;
  auto const types = GENERATE(bf16_types, fp16_types);
  auto const states = ended(1, file_of(types, 0, 1), options_of(types)).second;
  Sample sample{3};
  for (int const from : {1, 2, 3, 4, 6, 8, 12}) {
    auto options = options_of(types);
    options.steps = 2;
    options.after_step = [&](AnyEngine& engine, int step) {
      if (step == 2) {
        engine.save(saved / std::to_string(from)).wait();
      }
    };
    train(from, file_of(types, from % 4, from), options);
    options.steps = 4;
    options.begin = [&](AnyEngine& engine) {
      return static_cast<int>(engine.restore(saved / std::to_string(from)).step);
    };
    options.after_step = [&](AnyEngine& engine, int step) {
      if (step == 4) {
        engine.save(gone_on.path()).wait();
      }
    };
    for (int const to : {1, 2, 3, 4, 6, 8, 12}) {
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{}, from {} ranks to {}", types.name, from, to));
      train(to, file_of(types, 3 - to % 4, to), options);
      REQUIRE(states_in(gone_on / "step_00000004") == states);
    }
  }
}

TEST_CASE("micro-steps that a rank adds first do not have the same bits on any number of ranks") {
  // Otherwise the tests above might pass only because nothing is rounded.
  auto const text = [](int world) { return file(fp32_types, 2, batch / world, "last_micro_step", movements[0]); };
  CHECK(bits_of(train(1, text(1), options_of(fp32_types))) != bits_of(train(3, text(3), options_of(fp32_types))));
}

}  // namespace
}  // namespace zeroth::testing
