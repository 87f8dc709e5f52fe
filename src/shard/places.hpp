// SPDX-License-Identifier: Apache-2.0
/// Which slice a rank has: its place. Pure arithmetic.
#pragma once
#include <fmt/format.h>

#include "zeroth/core/error.hpp"

namespace zeroth::shard {

/// `world` ranks in groups of `group` consecutive ones. Sums over ranks, slices and samples follow places, so that they
/// are the same whatever rank is where. A rank of every group, the first, the second, ..., are each other's replicas
/// and have neighbouring places: what they hold of a part that is cut among a group is one piece of it, and so is what
/// one of them has of that. One group is all ranks in their own order.
class Places {
 public:
  /// Throws ContractError unless groups of `group` make up `world`.
  Places(int world, int group) : group_{group}, replicas_{group > 0 ? world / group : 0} {
    ZEROTH_EXPECTS(world >= 1 && group >= 1 && world % group == 0,
                   fmt::format("{} ranks in groups of {}: allowed are groups of one size", world, group));
  }
  [[nodiscard]] int world() const noexcept { return group_ * replicas_; }
  [[nodiscard]] int group() const noexcept { return group_; }        ///< Ranks in a group.
  [[nodiscard]] int replicas() const noexcept { return replicas_; }  ///< Groups.
  [[nodiscard]] int group_of(int rank) const noexcept { return rank / group_; }
  [[nodiscard]] int place_of(int rank) const noexcept { return rank % group_ * replicas_ + rank / group_; }
  /// Of the pieces that are cut among a group, in order, which one the ranks at `place` and its replicas hold.
  [[nodiscard]] int piece_of(int place) const noexcept { return place / replicas_; }
  /// The first place of those that are replicas of each other, `place` among them.
  [[nodiscard]] int first_replica(int place) const noexcept { return place - place % replicas_; }
  [[nodiscard]] int rank_at(int place) const noexcept { return place % replicas_ * group_ + place / replicas_; }

 private:
  int group_, replicas_;
};

}  // namespace zeroth::shard
