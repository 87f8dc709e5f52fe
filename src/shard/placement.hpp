// SPDX-License-Identifier: Apache-2.0
/// Where a state lives on a rank.
#pragma once
#include <cstdint>

namespace zeroth::shard {

/// What a rank holds of a part: all of it, what is its own of it where a group has the whole (see Places), or its
/// slice. Each includes the next. With one group, and with groups of one rank, the second is one of the others, and not
/// used.
enum class Placement : std::uint8_t { whole, group, shard };

/// All that distinguishes the stages, as a value. The optimizer is held no coarser than the parameters.
struct Placements {
  Placement parameters = Placement::whole;
  Placement gradients = Placement::whole;  ///< What backward writes: kept for every unit, or in slots while in use.
  Placement optimizer = Placement::whole;
  friend bool operator==(Placements const&, Placements const&) = default;
};

}  // namespace zeroth::shard
