// SPDX-License-Identifier: Apache-2.0
/// Stage 3 with some or all shards of parameters on a disk has the bits of stage 0 in memory. This holds in any dtypes,
/// with buffers of any size and number, in groups, with states on a disk too, and with a slow disk.
#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <random>
#include <string>

#include "checkpoint/saved.hpp"
#include "ended.hpp"
#include "groups.hpp"
#include "sleepy_disk.hpp"
#include "support/catch.hpp"
#include "support/delayed.hpp"
#include "support/next.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "tiers.hpp"

namespace zeroth::testing {
namespace {

Config stage(int number, Types const& types, int accumulation, char const* reduce, Movement const& move,
             std::string const& more = "") {
  return Config::from_json(file(types, number, accumulation, reduce, move, more));
}

/// Leaves most types out under a sanitizer, which tests code, not bits.
}  // namespace

TEST_CASE("parameters on a disk have the bits of stage 0, and leave no file") {
  auto const world = GENERATE(1, 2, 3);
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  auto const [accumulation, reduce] =
      GENERATE(table<int, char const*>({{1, "every_micro_step"}, {3, "last_micro_step"}, {2, "every_micro_step"}}));
  Folder const folder;
  static Next next{parameters_on_disks, std::size(movements)};
  auto const base = trained(world, stage(0, types, accumulation, reduce, movements[1]));
  for (auto const& move : movements) {
    auto const& disk = next();
    auto const* const poison = move.gradient_slots == 1 ? "" : R"(, "poison": true)";
    INFO(fmt::format("{} ranks, {}, {} micro-steps, overlap {}; {}", world, types.name, accumulation, move.overlap,
                     disk.name()));
    std::atomic<bool> left{false};
    TrainOptions options;
    options.after_step = [&](AnyEngine&, int) { left = left || !folder.contents().empty(); };
    auto const config = stage(3, types, accumulation, reduce, move, poison);
    REQUIRE(trained(world, parameters_on_disk(config, disk, folder.path()), options) == base);
    REQUIRE_FALSE(left);
  }
}

TEST_CASE("parameters and states on disks end like those of stage 0, with every optimizer") {
  auto const rule = GENERATE(from_range(all_rules()));
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  static Sample sample{2};
  if (sample.leaves_out()) {
    return;
  }
  Folder const folder;
  static Next next{parameters_on_disks, std::size(movements)};
  static Next next_states{on_disks, std::size(movements)};
  auto const of = [&](int number, Movement const& move) {
    return Config::from_json(file(types, number, 2, "every_micro_step", move, "", rule.optimizer));
  };
  auto const base = ended(3, of(0, movements[1]));
  for (auto const& move : movements) {
    auto const& disk = next();
    auto const config = parameters_on_disk(of(3, move), disk, folder.path());
    INFO(fmt::format("{}, {}; {}", rule.name, types.name, disk.name()));
    REQUIRE(ended(3, config) == base);
    auto const& states = next_states();
    INFO(states.name());
    REQUIRE(ended(3, on_disk(config, states, folder.path())) == base);
  }
}

TEST_CASE("with LAMB, parameters on a disk whose masters are in memory end like those of stage 0") {
  Folder const folder;
  auto const of = [&](int number, Movement const& move) {
    return Config::from_json(file(bf16_types, number, 2, "every_micro_step", move, "", lamb().optimizer));
  };
  auto const base = ended(3, of(0, movements[1]));
  for (auto const& disk : parameters_on_disks) {
    INFO(disk.name());
    CHECK(ended(3, parameters_on_disk(of(3, movements[2]), disk, folder.path())) == base);
  }
}

TEST_CASE("in groups parameters on a disk have the bits of stage 0") {
  auto const world = GENERATE(4, 6);
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  Folder const folder;
  static Next next{parameters_on_disks, std::size(movements)};
  auto const base = ended(world, stage(0, types, 2, "every_micro_step", movements[1]));
  for (int const size : group_sizes(world)) {
    for (auto const& grouping : {Grouping{3, Cut::states}, Grouping{3, Cut::parameters}}) {
      auto const& disk = next();
      INFO(fmt::format("{} ranks, {}, {}; {}", world, grouping.name(size), types.name, disk.name()));
      auto const config = in_groups(stage(3, types, 2, "every_micro_step", movements[0]), grouping, size);
      REQUIRE(ended(world, parameters_on_disk(config, disk, folder.path())) == base);
      REQUIRE(ended(world, on_disk(parameters_on_disk(config, disk, folder.path()), on_disks[1], folder.path())) ==
              base);
    }
  }
}

/// Compares stage 3, as `made` configures it, with stage 0; disks and ranks sleep at random.
void check_from_sleepy_disks(Types const& types, int world, Folder const& folder,
                             std::function<Config(Config const&)> const& made) {
  auto const base = ended(world, stage(0, types, 2, "every_micro_step", movements[1]));
  unsigned seed = 1;
  for (auto const& move : movements) {
    for (auto const& disk : parameters_on_disks) {
      static Sample sample{3};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{}, overlap {}, seed {}; {}", types.name, move.overlap, seed, disk.name()));
      SleepyDisk const sleepy{folder, seed++};
      TrainOptions options;
      options.waits = true;
      auto const config = made(stage(3, types, 2, "every_micro_step", move, R"(, "poison": true)"));
      REQUIRE(ended(world, parameters_on_disk(config, disk, folder.path()), options, delayed) == base);
    }
  }
}

TEST_CASE("parameters that replicas exchange for a disk have the bits of stage 0, however late they come") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  constexpr int world = 4;
  Folder const folder;
  auto const hpz = [](Config const& config) { return in_groups(config, {3, Cut::parameters}, 2); };
  check_from_sleepy_disks(types, world, folder, hpz);
  auto const in_two_levels =
      in_groups(stage(3, types, 2, "every_micro_step", movements[0]), {3, Cut::parameters}, 2, true);
  CHECK(ended(world, parameters_on_disk(in_two_levels, parameters_on_disks[1], folder.path())) ==
        ended(world, in_two_levels));
}

TEST_CASE("in groups every optimizer has the bits of stage 0 with parameters and states on disks") {
  auto const rule = GENERATE(from_range(all_rules()));
  constexpr int world = 4;
  Folder const folder;
  for (auto const& types : {fp32_types, bf16_types}) {
    auto const of = [&](int number) {
      return Config::from_json(file(types, number, 2, "every_micro_step", movements[0], "", rule.optimizer));
    };
    auto const base = ended(world, of(0));
    for (auto const& grouping : groupings) {
      static Sample sample{3};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{}, {}, {}", rule.name, types.name, grouping.name(2)));
      auto config = on_disk(in_groups(of(grouping.stage), grouping, 2), on_disks[2], folder.path());
      if (grouping.stage == 3) {
        config = parameters_on_disk(config, parameters_on_disks[3], folder.path());
      }
      REQUIRE(ended(world, config) == base);
    }
  }
}

TEST_CASE("persistent parameters are in memory, and the others on a disk have the bits of stage 0") {
  auto const types = GENERATE(fp32_types, bf16_types);
  auto const keys = R"({"zero_optimization": {"stage3_param_persistence_threshold": 300}})";
  Folder const folder;
  auto const base = ended(3, stage(0, types, 2, "every_micro_step", movements[1]).with(keys));
  for (auto const& disk : parameters_on_disks) {
    INFO(disk.name());
    auto const config = stage(3, types, 2, "every_micro_step", movements[2]).with(keys);
    REQUIRE(ended(3, parameters_on_disk(config, disk, folder.path())) == base);
  }
}

TEST_CASE("random delays of ranks and of a disk of parameters change nothing") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  check_from_sleepy_disks(types, 3, Folder{}, [](Config const& config) { return config; });
}

TEST_CASE("an overflow leaves parameters on a disk unchanged") {
  TrainOptions options;
  options.overflow_at_step = 2;
  Folder const folder;
  auto const base = ended(3, stage(0, fp16_types, 2, "every_micro_step", movements[1]), options);
  for (auto const& disk : parameters_on_disks) {
    for (auto const& move : {movements[1], movements[2]}) {
      static Sample sample{3};
      if (sample.leaves_out()) {
        continue;
      }
      auto const config = parameters_on_disk(stage(3, fp16_types, 2, "every_micro_step", move), disk, folder.path());
      CHECK(ended(3, config, options) == base);
      CHECK(ended(3, on_disk(config, on_disks[1], folder.path()), options) == base);
    }
  }
}

TEST_CASE("random jobs have the bits of stage 0 wherever their parameters and states are") {
  auto const seed = std::random_device{}();
  std::mt19937 random{seed};
  auto const below = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  Folder const folder;
  for (int job = 0; job < 15; ++job) {
    auto const world = 1 + static_cast<int>(below(6));
    auto const& types = all_types[below(std::size(all_types))];
    auto const accumulation = 1 + static_cast<int>(below(3));
    auto const sizes = group_sizes(world);
    auto const cut = Cut{static_cast<int>(below(3))};
    ParametersOnDisk const disk{static_cast<std::int64_t>(below(4000)), static_cast<std::int64_t>(below(5000)),
                                1 + static_cast<int>(below(9)), 4096 * (1 + static_cast<int>(below(4))),
                                1 + static_cast<int>(below(9))};
    auto const& move = movements[below(std::size(movements))];
    auto const& states = on_disks[below(std::size(on_disks))];
    bool const has_states = below(2) == 0;
    INFO(fmt::format("seed {}, job {}: {} ranks, {}, {} micro-steps, overlap {}; {}; {}", seed, job, world, types.name,
                     accumulation, move.overlap, disk.name(), has_states ? states.name() : "states in memory"));
    SleepyDisk const sleepy{folder, below(2) == 0 ? 0 : 1 + static_cast<unsigned>(below(1000))};
    auto const base = ended(world, stage(0, types, accumulation, "every_micro_step", movements[1]));
    auto config =
        in_groups(stage(3, types, accumulation, "every_micro_step", move), {3, cut}, sizes[below(sizes.size())]);
    config = parameters_on_disk(config, disk, folder.path());
    REQUIRE(ended(world, has_states ? on_disk(config, states, folder.path()) : config) == base);
  }
}

}  // namespace zeroth::testing
