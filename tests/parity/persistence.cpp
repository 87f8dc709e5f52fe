// SPDX-License-Identifier: Apache-2.0
/// Small parameters that every rank holds whole change communication and memory, but stage 3 keeps the bits of stage 0,
/// whose file has the same keys.
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "ended.hpp"
#include "groups.hpp"
#include "support/catch.hpp"
#include "support/delayed.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "tiers.hpp"

namespace zeroth::testing {
namespace {

constexpr auto no_limit = std::numeric_limits<std::int64_t>::max();

/// `config`, with parameters of at most `param_count` elements kept whole, and at most `model_count` in all.
Config with_persistent(Config const& config, std::int64_t param_count, std::int64_t model_count = no_limit) {
  return config.with(fmt::format(R"({{"zero_optimization": {{"stage3_param_persistence_threshold": {},
                                      "stage3_model_persistence_threshold": {}}}}})",
                                 param_count, model_count));
}

Config persistence_base(Types const& types, int accumulation, char const* reduce, Movement const& move, int stage,
                        std::string const& more = "") {
  return Config::from_json(file(types, stage, accumulation, reduce, move, more));
}

}  // namespace

TEST_CASE("persistent parameters have the bits of stage 0, at any threshold") {
  auto const world = GENERATE(1, 3);
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  auto const [accumulation, reduce] =
      GENERATE(table<int, char const*>({{1, "every_micro_step"}, {3, "last_micro_step"}}));
  auto const at_stage = [&, accumulation = accumulation, reduce = reduce](int stage, Movement const& move,
                                                                          char const* more) {
    return persistence_base(types, accumulation, reduce, move, stage, more);
  };
  std::size_t next = 0;
  for (auto const param_count : {1, 7, 91, 650, 3000, 1'000'000}) {
    for (auto const model_count : {no_limit, std::int64_t{500}}) {
      auto const& move = movements[next++ % std::size(movements)];
      static Sample sample{5};
      if (sample.leaves_out()) {
        continue;
      }
      auto const* const poison = move.gradient_slots == 1 ? "" : R"(, "poison": true)";
      INFO(fmt::format("{} ranks, {}, {} micro-steps, up to {} elements, {} in all, overlap {}", world, types.name,
                       accumulation, param_count, model_count, move.overlap));
      auto const of = [&](int stage) {
        return with_persistent(at_stage(stage, move, poison), param_count, model_count);
      };
      auto const base = trained(world, of(0));
      REQUIRE(trained(world, of(3)) == base);
      REQUIRE(trained(world, of(1 + static_cast<int>(next % 2))) == base);
    }
  }
}

TEST_CASE("persistent parameters in groups, with states on a disk and every optimizer end like stage 0") {
  auto const rule = GENERATE(from_range(all_rules()));
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  static Sample sample{2};
  if (sample.leaves_out()) {
    return;
  }
  Folder const folder;
  auto const of = [&](int stage, Movement const& move) {
    return Config::from_json(file(types, stage, 2, "every_micro_step", move, "", rule.optimizer));
  };
  auto const base = ended(4, with_persistent(of(0, movements[1]), 300));
  std::size_t next = 0;
  for (auto const& grouping : {Grouping{3, Cut::nothing}, Grouping{3, Cut::parameters}, Grouping{3, Cut::states}}) {
    auto const config = with_persistent(in_groups(of(3, movements[next++]), grouping, 2), 300);
    static Sample sample_of_groups{2};
    if (sample_of_groups.leaves_out()) {
      continue;
    }
    INFO(fmt::format("{}, {}, {}", rule.name, types.name, grouping.name(2)));
    REQUIRE(ended(4, config) == base);
    REQUIRE(ended(4, on_disk(config, on_disks[next], folder.path())) == base);
  }
}

TEST_CASE("jobs with random thresholds and slow ranks train like stage 0") {
  auto const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  auto const any = [&](int least, int most) { return std::uniform_int_distribution{least, most}(random); };
  for (int job = 0; job < 8; ++job) {
    auto const world = any(2, 5);
    auto const& types = all_types[static_cast<std::size_t>(any(0, static_cast<int>(std::size(all_types)) - 1))];
    auto const& move = movements[static_cast<std::size_t>(any(0, static_cast<int>(std::size(movements)) - 1))];
    auto const param_count = any(0, 1200);
    auto const model_count = any(0, 3000);
    INFO(fmt::format("{} ranks, {}, thresholds {} and {}", world, types.name, param_count, model_count));
    auto const of = [&](int stage) {
      return with_persistent(persistence_base(types, 2, "every_micro_step", move, stage), param_count, model_count);
    };
    REQUIRE(trained(world, of(3), {}, delayed) == trained(world, of(0)));
  }
}

}  // namespace zeroth::testing
