// SPDX-License-Identifier: Apache-2.0
/// The place of a rank, which selects its slice. Pure arithmetic.
#pragma once
#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "shard/placement.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::shard {

/// `world` ranks in groups of `group` consecutive ones. Sums over ranks, slices and samples follow places, so they do
/// not depend on which rank is where. The n-th ranks of all groups are replicas of each other and have neighbouring
/// places: their pieces of a part that is sharded within groups are the same, and each one's slice is within that
/// piece. With one group, places are ranks.
class Places {
 public:
  /// Throws ContractError unless `world` is a multiple of `group`.
  Places(int world, int group) : sizes_{group, group > 0 ? world / group : 0} {
    ZEROTH_EXPECTS(world >= 1 && group >= 1 && world % group == 0,
                   fmt::format("{} ranks in groups of {}: allowed are groups of one size", world, group));
  }
  [[nodiscard]] int world() const noexcept { return size(all_axes); }
  [[nodiscard]] int group() const noexcept { return size(group_axes); }       ///< Ranks in a group.
  [[nodiscard]] int replicas() const noexcept { return size(replica_axes); }  ///< Groups.
  /// The number of ranks along `axes`, and so of pieces that they cut a state into.
  [[nodiscard]] int size(Axes axes) const noexcept {
    int product = 1;
    for (auto const axis : every_axis) {
      product *= axes.contains(axis) ? size(axis) : 1;
    }
    return product;
  }
  /// The index of the piece that belongs to the rank at `place`. Ranks with the same index differ along other axes
  /// only.
  [[nodiscard]] int index(Axes axes, int place) const noexcept {
    int index = 0;
    int stride = 1;
    for (auto axis = every_axis.rbegin(); axis != every_axis.rend(); ++axis) {
      if (axes.contains(*axis)) {
        index += place % size(*axis) * stride;
        stride *= size(*axis);
      }
      place /= size(*axis);
    }
    return index;
  }
  [[nodiscard]] int place_of(int rank) const noexcept { return rank % group() * replicas() + rank / group(); }
  /// The first place among the replicas of `place`.
  [[nodiscard]] int first_replica(int place) const noexcept { return place - index(replica_axes, place); }
  [[nodiscard]] int rank_at(int place) const noexcept { return place % replicas() * group() + place / replicas(); }

 private:
  [[nodiscard]] int size(Axis axis) const noexcept { return sizes_[static_cast<std::size_t>(axis)]; }

  std::array<int, every_axis.size()> sizes_;
};

}  // namespace zeroth::shard
