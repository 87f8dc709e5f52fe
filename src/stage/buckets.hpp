// SPDX-License-Identifier: Apache-2.0
/// Decides which gradients are reduced together, and when. Pure logic.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shard/layout.hpp"

namespace zeroth::stage {

/// Collects flat units with complete gradients and returns them in declared backward order, in whatever order they
/// completed: the buckets are the same on every rank.
class Buckets {
 public:
  using Bucket = std::span<shard::FlatId const>;  ///< Valid as long as the Buckets.

  /// A bucket ends before it would exceed `limit_count` elements or `limit_units` units, and as soon as its own units
  /// are complete. A larger unit gets its own bucket.
  Buckets(shard::Layout const& layout, std::int64_t limit_count, int limit_units);

  /// Restricts the following calls to units `begin` to `end` - 1, until finish().
  void begin(std::uint32_t begin, std::uint32_t end) noexcept;
  void complete(shard::FlatId flat) { completed_[flat] = true; }
  /// The next full bucket; empty if there is none. Call it after complete() until it returns an empty one.
  [[nodiscard]] Bucket next_full();
  /// The current bucket, full or not; empty if nothing was collected.
  [[nodiscard]] Bucket flush() noexcept;
  /// The last bucket. Throws ContractError unless all units are complete.
  [[nodiscard]] Bucket finish();
  /// Drops units that were completed and not returned.
  void reset() noexcept;
  [[nodiscard]] bool all_complete() const noexcept { return end_ == last_; }
  /// The first incomplete unit in declared order. Call it only if !all_complete().
  [[nodiscard]] shard::FlatId waits_for() const noexcept { return order_[end_]; }

  /// Maximum elements of a bucket, padding included.
  [[nodiscard]] static std::int64_t largest_count(shard::Layout const& layout, std::int64_t limit_count) noexcept;

 private:
  /// Elements of the unit at a place of order_.
  [[nodiscard]] std::int64_t count_at(std::size_t place) const noexcept;

  shard::Layout const* layout_;
  std::int64_t limit_count_;
  std::size_t limit_units_;
  std::vector<shard::FlatId> order_;
  ById<shard::FlatId, bool> completed_;
  std::size_t begin_ = 0, end_ = 0;  // the current bucket, in order_
  std::size_t last_ = 0;             // end of the current range in order_
  std::int64_t count_ = 0;           // elements of the current bucket
};

}  // namespace zeroth::stage
