// SPDX-License-Identifier: Apache-2.0
/// Among whom states move.
#pragma once
#include "shard/placement.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::shard {

/// Communicators of one stream's work, in order of places. `group` and `replicas` are null where nothing moves among
/// them.
struct Ranks {
  bool in_groups = false;                  ///< Are there several groups?
  comm::Communicator* all = nullptr;       ///< Sums run over them, and slices are cut for them.
  comm::Communicator* group = nullptr;     ///< Those that together have the whole of what is cut among a group.
  comm::Communicator* replicas = nullptr;  ///< Those that hold the same piece of it, one of each group.

  /// Who together has all that `coarse` is, where each has `fine` of it: gathered, the pieces of the latter are the
  /// former. The other way round, that is among whom sums of the former leave everybody the latter.
  [[nodiscard]] comm::Communicator& between(Placement fine, Placement coarse) const noexcept {
    return fine == Placement::group ? *group : coarse == Placement::group ? *replicas : *all;
  }
};

}  // namespace zeroth::shard
