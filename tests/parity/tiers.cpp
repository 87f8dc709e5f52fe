// SPDX-License-Identifier: Apache-2.0
/// Training with some or all masters and optimizer states on a disk has the bits of stage 0 in memory. This holds at
/// every stage, in groups, with tiles of any size, with and without read-ahead and write-behind, and with a slow disk.
#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

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

Config plain(Types const& types, int stage, int accumulation, char const* reduce, Movement const& move,
             std::string const& more = "",
             char const* optimizer = R"("type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1})") {
  return Config::from_json(file(types, stage, accumulation, reduce, move, more, optimizer));
}

/// Leaves most types out under a sanitizer, which tests code, not bits.
}  // namespace

TEST_CASE("states on a disk have the bits of stage 0, and leave no file") {
  auto const world = GENERATE(1, 3);
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  auto const [accumulation, reduce] =
      GENERATE(table<int, char const*>({{1, "every_micro_step"}, {3, "last_micro_step"}}));
  Folder const folder;
  Next next{on_disks};
  auto const base = trained(world, plain(types, 0, accumulation, reduce, movements[1]));
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const& move : movements) {
      static Sample sample{3};
      if (sample.leaves_out()) {
        continue;
      }
      auto const& disk = next();
      auto const* const poison = move.gradient_slots == 1 ? "" : R"(, "poison": true)";
      INFO(fmt::format("{} ranks, {}, {} micro-steps, stage {}, overlap {}; {}", world, types.name, accumulation, stage,
                       move.overlap, disk.name()));
      std::atomic<bool> left{false};
      TrainOptions options;
      options.after_step = [&](AnyEngine&, int) { left = left || !folder.contents().empty(); };
      auto const config = plain(types, stage, accumulation, reduce, move, poison);
      REQUIRE(trained(world, on_disk(config, disk, folder.path()), options) == base);
      REQUIRE_FALSE(left);
    }
  }
}

TEST_CASE("states on a disk end like those of stage 0, with every optimizer") {
  auto const rule = GENERATE(from_range(all_rules()));
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  Folder const folder;
  Next next{on_disks};
  auto const of = [&](int stage) {
    return plain(types, stage, 2, "every_micro_step", movements[stage], "", rule.optimizer);
  };
  auto const base = ended(3, of(0));
  for (int stage = 0; stage <= 3; ++stage) {
    auto const& disk = next();
    static Sample sample{3};
    if (sample.leaves_out()) {
      continue;
    }
    INFO(fmt::format("{}, {}, stage {}; {}", rule.name, types.name, stage, disk.name()));
    REQUIRE(ended(3, on_disk(of(stage), disk, folder.path())) == base);
  }
}

TEST_CASE("a program's own rule trains on a disk like in memory") {
  auto const types = GENERATE(fp32_types, bf16_types);
  Folder const folder;
  auto const of = [&](int stage) {
    return Config::from_json(file(types, stage, 2, "every_micro_step", movements[stage], "", "")).with(own_momentum());
  };
  auto const base = ended(3, of(0));
  for (int stage = 0; stage <= 3; ++stage) {
    CHECK(ended(3, on_disk(of(stage), on_disks[1], folder.path())) == base);
  }
}

TEST_CASE("in groups states on a disk have the bits of stage 0") {
  auto const world = GENERATE(4, 6);
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  Folder const folder;
  Next next{on_disks};
  auto const base = ended(world, plain(types, 0, 2, "every_micro_step", movements[1]));
  for (auto const& grouping : groupings) {
    for (int const size : group_sizes(world)) {
      auto const& disk = next();
      INFO(fmt::format("{} ranks, {}, {}; {}", world, types.name, grouping.name(size), disk.name()));
      auto const config = in_groups(plain(types, 0, 2, "every_micro_step", movements[0]), grouping, size);
      REQUIRE(ended(world, on_disk(config, disk, folder.path())) == base);
    }
  }
}

TEST_CASE("random delays of ranks and of a disk of states change nothing") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  Folder const folder;
  auto const base = ended(3, plain(types, 0, 2, "every_micro_step", movements[1]));
  unsigned seed = 1;
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto d = static_cast<std::size_t>(stage % 2); d < std::size(on_disks); d += 2) {
      auto const& disk = on_disks[d];
      INFO(fmt::format("{}, stage {}, seed {}; {}", types.name, stage, seed, disk.name()));
      SleepyDisk const sleepy{folder, seed++};
      TrainOptions options;
      options.waits = true;
      auto const config = plain(types, stage, 2, "every_micro_step", movements[0], R"(, "poison": true)");
      REQUIRE(ended(3, on_disk(config, disk, folder.path()), options, delayed) == base);
    }
  }
}

TEST_CASE("an overflow leaves states on a disk unchanged") {
  TrainOptions options;
  options.overflow_at_step = 2;
  Folder const folder;
  auto const base = ended(3, plain(fp16_types, 0, 2, "every_micro_step", movements[1]), options);
  for (int stage = 0; stage <= 3; ++stage) {
    auto const config = plain(fp16_types, stage, 2, "every_micro_step", movements[2]);
    CHECK(ended(3, on_disk(config, on_disks[1], folder.path()), options) == base);
  }
}

TEST_CASE("random jobs have the bits of stage 0 wherever their states are") {
  auto const seed = std::random_device{}();
  std::mt19937 random{seed};
  auto const below = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  Folder const folder;
  for (int job = 0; job < 15; ++job) {
    auto const world = 1 + static_cast<int>(below(6));
    auto const& types = all_types[below(std::size(all_types))];
    auto const accumulation = 1 + static_cast<int>(below(3));
    auto const sizes = group_sizes(world);
    auto const size = sizes[below(sizes.size())];
    bool const groups = below(2) == 0;
    auto const& grouping =
        groups ? groupings[below(std::size(groupings))] : stages_alone[below(std::size(stages_alone))];
    OnDisk const disk{static_cast<double>(below(101)) / 100,
                      1 + static_cast<std::int64_t>(below(9000)),
                      below(2) == 0,
                      below(2) == 0,
                      1 + static_cast<int>(below(20)),
                      4096 * (1 + static_cast<int>(below(4))),
                      1 + static_cast<int>(below(9))};
    auto const& move = movements[below(std::size(movements))];
    INFO(fmt::format("seed {}, job {}: {} ranks, {}, {} micro-steps, {}; {}", seed, job, world, types.name,
                     accumulation, grouping.name(size), disk.name()));
    SleepyDisk const sleepy{folder, below(2) == 0 ? 0 : 1 + static_cast<unsigned>(below(1000))};
    auto const base = ended(world, plain(types, 0, accumulation, "every_micro_step", movements[1]));
    auto const config = in_groups(plain(types, 0, accumulation, "every_micro_step", move), grouping, size);
    REQUIRE(ended(world, on_disk(config, disk, folder.path())) == base);
  }
}

}  // namespace zeroth::testing
