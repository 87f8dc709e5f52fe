// SPDX-License-Identifier: Apache-2.0
/// Buckets that wait while a tied parameter's gradient is reduced before them. Pure logic.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "shard/layout.hpp"
#include "stage/buckets.hpp"

namespace zeroth::stage {

/// With delayed updates, reductions of a step continue during the next step's passes, until backward needs the memory
/// of their gradients. The gradient of a tied parameter, such as an embedding that is also the head, is complete last
/// and needed first: after all other reductions, its own would have only a forward pass to begin and end. So the
/// buckets between the first half of all gradients and that one let it go first. They would hardly have begun by then:
/// if reductions take as long as passes, two thirds are reduced in backward.
class HeldBuckets {
 public:
  /// Holds nothing unless `enabled`, or if no parameter is tied.
  HeldBuckets(shard::Layout const& layout, bool enabled);

  /// Whether `bucket` has to wait. Keeps it if so.
  [[nodiscard]] bool holds(Buckets::Bucket bucket);
  /// Whether waiting buckets may continue after `bucket`.
  [[nodiscard]] bool releases(Buckets::Bucket bucket) const noexcept;
  [[nodiscard]] std::span<Buckets::Bucket const> all() const noexcept { return held_; }  ///< In order.
  void clear() noexcept { held_.clear(); }

 private:
  ById<shard::FlatId, bool> waits_;     // completes between the first half and the last tied unit
  std::optional<shard::FlatId> first_;  // the last tied unit to complete, which goes first
  std::vector<Buckets::Bucket> held_;
};

}  // namespace zeroth::stage
