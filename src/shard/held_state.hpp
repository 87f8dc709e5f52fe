// SPDX-License-Identifier: Apache-2.0
/// A state as a rank holds it, in memory or offloaded.
#pragma once
#include <cstddef>
#include <cstdint>

#include "shard/memory.hpp"

namespace zeroth::shard {

/// Elements of one state of a part of a flat unit: the first ones are in memory of the device, the others offloaded.
struct HeldState {
  std::byte* data = nullptr;  ///< The elements in memory.
  Dtype dtype = Dtype::fp32;
  std::int64_t in_memory_count = 0;
  OnDisk rest{};

  /// `count` elements from `first` on.
  [[nodiscard]] HeldState part(std::int64_t first, std::int64_t count) const noexcept;
  /// Between passes: `use` reads `elements`; see OffloadedStates::look(). Does not wait for work that it enqueues for
  /// elements in memory.
  void look(Range elements, OffloadedStates::Use const& use) const;
  /// Like look(), and `use` may write.
  void edit(Range elements, OffloadedStates::Use const& use) const;
};

/// This rank's optimizer elements of a state that updates change, numbered as for most_updated. The master may be among
/// the parameters.
[[nodiscard]] HeldState held_of_updated(Memory const& memory, FlatId flat, std::size_t state);
/// This rank's elements of the compute copy of a part.
[[nodiscard]] HeldState held_of_parameters(Memory const& memory, FlatId flat, bool trainable);
/// Rounds `source` to `count` elements of a compute copy at `to`, as an update does. With Settings::gather_codec `to`
/// must begin a block, and what follows the last element in its block must be padding: it is rounded too.
void round_parameters(Memory const& memory, FlatId flat, bool trainable, std::byte* to, void const* source,
                      Dtype source_dtype, std::int64_t count);

}  // namespace zeroth::shard
