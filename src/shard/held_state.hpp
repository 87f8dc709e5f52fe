// SPDX-License-Identifier: Apache-2.0
/// What a rank holds of a state, wherever it lives.
#pragma once
#include <cstddef>
#include <cstdint>

#include "shard/memory.hpp"

namespace zeroth::shard {

/// Elements of one state of a part of a flat unit: the first ones in memory of the device, the others offloaded.
struct HeldState {
  std::byte* data = nullptr;  ///< Of those in memory.
  Dtype dtype = Dtype::fp32;
  std::int64_t in_memory_count = 0;
  OnDisk rest{};

  /// `count` of them, from `first` on.
  [[nodiscard]] HeldState part(std::int64_t first, std::int64_t count) const noexcept;
  /// Between passes: `use` reads `elements`; see OffloadedStates::look(). What it enqueues for those in memory is not
  /// waited for.
  void look(Range elements, OffloadedStates::Use const& use) const;
  /// Likewise, and `use` may write.
  void edit(Range elements, OffloadedStates::Use const& use) const;
};

/// What the optimizer of this rank holds of a state that updates change, counted as most_updated does. The master may
/// be among the parameters.
[[nodiscard]] HeldState held_of_updated(Memory const& memory, FlatId flat, std::size_t state);
/// What this rank holds of the compute copy of a part.
[[nodiscard]] HeldState held_of_parameters(Memory const& memory, FlatId flat, bool trainable);

}  // namespace zeroth::shard
