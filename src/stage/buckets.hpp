// SPDX-License-Identifier: Apache-2.0
/// Which gradients leave together, and when. Pure logic.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shard/layout.hpp"

namespace zeroth::stage {

/// Collects flat units whose gradients are complete and hands them out in declared backward order, whatever the order
/// in which they were completed: the same buckets on every rank.
class Buckets {
 public:
  using Bucket = std::span<shard::FlatId const>;  ///< Lives as long as the Buckets.

  /// A bucket is full before it would exceed `limit_count` elements or `limit_units` units; a larger unit goes alone.
  Buckets(shard::Layout const& layout, std::int64_t limit_count, int limit_units);

  /// What follows is of the units from `begin` to before `end` alone, until finish().
  void begin(std::uint32_t begin, std::uint32_t end) noexcept;
  void complete(shard::FlatId flat) { completed_[flat] = true; }
  /// The next bucket that is full, each once; empty if there is none. To be asked after complete() until it is empty.
  [[nodiscard]] Bucket next_full();
  /// What has been collected so far, full or not; empty if there is nothing.
  [[nodiscard]] Bucket flush() noexcept;
  /// All those units are complete: the rest. Throws ContractError if one is not.
  [[nodiscard]] Bucket finish();
  /// Forgets what was completed and not handed out.
  void reset() noexcept;
  [[nodiscard]] bool all_complete() const noexcept { return end_ == last_; }
  /// The first unit in declared order that is not complete yet. Only where !all_complete().
  [[nodiscard]] shard::FlatId waits_for() const noexcept { return order_[end_]; }

  /// No bucket has more elements than this, padding included.
  [[nodiscard]] static std::int64_t largest_count(shard::Layout const& layout, std::int64_t limit_count) noexcept;

 private:
  shard::Layout const* layout_;
  std::int64_t limit_count_;
  std::size_t limit_units_;
  std::vector<shard::FlatId> order_;
  ById<shard::FlatId, bool> completed_;
  std::size_t begin_ = 0, end_ = 0;  // of what is collected, in order_
  std::size_t last_ = 0;             // before this one in order_ all is over
  std::int64_t count_ = 0;           // elements of that
};

}  // namespace zeroth::stage
