// SPDX-License-Identifier: Apache-2.0
/// Stage files that put ranks into groups.
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "stage_files.hpp"
#include "zeroth/config/config.hpp"

namespace zeroth::testing {

/// The states of a stage that are sharded within a group.
enum class Cut { nothing, parameters, states };

/// A stage, and the states that each group holds for itself.
struct Grouping {
  int stage;
  Cut cut;
  [[nodiscard]] std::string name(int size) const {
    return fmt::format("stage {}{}", stage,
                       cut == Cut::nothing      ? ""
                       : cut == Cut::parameters ? fmt::format(", zero_hpz_partition_size {}", size)
                                                : fmt::format(", mics_shard_size {}", size));
  }
};
inline constexpr Grouping groupings[] = {{3, Cut::parameters}, {1, Cut::states}, {2, Cut::states}, {3, Cut::states}};
inline constexpr Grouping stages_alone[] = {{0, Cut::nothing}, {1, Cut::nothing}, {2, Cut::nothing}, {3, Cut::nothing}};

/// `config` with groups of `size` ranks.
inline Config in_groups(Config const& config, Grouping const& grouping, int size, bool two_level_sums = false) {
  auto const hpz = grouping.cut == Cut::parameters ? size : 1;
  auto const mics = grouping.cut == Cut::states ? size : -1;
  auto const of_zeroth = two_level_sums && (hpz == 1 && mics == -1)
                             ? fmt::format(R"({{"two_level_sums": true, "group_size": {}}})", size)
                             : fmt::format(R"({{"two_level_sums": {}}})", two_level_sums);
  return config.with(fmt::format(
      R"({{"zero_optimization": {{"stage": {}, "zero_hpz_partition_size": {}, "mics_shard_size": {}}}, "zeroth": {}}})",
      grouping.stage, hpz, mics, of_zeroth));
}

/// All group sizes for `world` ranks, from single ranks to all of them.
inline std::vector<int> group_sizes(int world) {
  std::vector<int> sizes;
  for (int size = 1; size <= world; ++size) {
    if (world % size == 0) {
      sizes.push_back(size);
    }
  }
  return sizes;
}

}  // namespace zeroth::testing
