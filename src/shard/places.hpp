// SPDX-License-Identifier: Apache-2.0
/// Which slice a rank has: its place. Pure arithmetic.
#pragma once
#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "shard/placement.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::shard {

/// `world` ranks in groups of `group` consecutive ones. Sums over ranks, slices and samples follow places, so that they
/// are the same whatever rank is where. A rank of every group, the first, the second, ..., are each other's replicas
/// and have neighbouring places: what they hold of a part that is cut among a group is one piece of it, and so is what
/// one of them has of that. One group is all ranks in their own order.
class Places {
 public:
  /// Throws ContractError unless groups of `group` make up `world`.
  Places(int world, int group) : sizes_{group, group > 0 ? world / group : 0} {
    ZEROTH_EXPECTS(world >= 1 && group >= 1 && world % group == 0,
                   fmt::format("{} ranks in groups of {}: allowed are groups of one size", world, group));
  }
  [[nodiscard]] int world() const noexcept { return size(all_axes); }
  [[nodiscard]] int group() const noexcept { return size(group_axes); }       ///< Ranks in a group.
  [[nodiscard]] int replicas() const noexcept { return size(replica_axes); }  ///< Groups.
  /// How many ranks there are along `axes`, which is into how many pieces they cut.
  [[nodiscard]] int size(Axes axes) const noexcept {
    int product = 1;
    for (auto const axis : every_axis) {
      product *= axes.contains(axis) ? size(axis) : 1;
    }
    return product;
  }
  /// Which of these pieces, in order, is that of the rank at `place`. Ranks with the same number differ along other
  /// axes only.
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
  /// The first place of those that are replicas of each other, `place` among them.
  [[nodiscard]] int first_replica(int place) const noexcept { return place - index(replica_axes, place); }
  [[nodiscard]] int rank_at(int place) const noexcept { return place % replicas() * group() + place / replicas(); }

 private:
  [[nodiscard]] int size(Axis axis) const noexcept { return sizes_[static_cast<std::size_t>(axis)]; }

  std::array<int, every_axis.size()> sizes_;
};

}  // namespace zeroth::shard
