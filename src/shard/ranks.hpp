// SPDX-License-Identifier: Apache-2.0
/// Among whom states move.
#pragma once
#include "zeroth/comm/communicator.hpp"

namespace zeroth::shard {

/// Communicators of one stream's work, in order of places.
struct Ranks {
  comm::Communicator* all = nullptr;    ///< Sums run over them, and slices are cut for them.
  comm::Communicator* group = nullptr;  ///< Those that together have the whole of what is cut among a group.
  /// Those that hold the same piece of it, one of each group; null where the group is all ranks.
  comm::Communicator* replicas = nullptr;
};

}  // namespace zeroth::shard
