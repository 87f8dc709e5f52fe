// SPDX-License-Identifier: Apache-2.0
/// Where a state lives on a rank.
#pragma once
#include <cstdint>

namespace zeroth::shard {

enum class Placement : std::uint8_t { whole, shard };

/// All that distinguishes the stages, as a value.
struct Placements {
  Placement parameters = Placement::whole;
  Placement gradients = Placement::whole;  ///< What backward writes: kept for every unit, or in slots while in use.
  Placement optimizer = Placement::whole;
  friend bool operator==(Placements const&, Placements const&) = default;
};

}  // namespace zeroth::shard
