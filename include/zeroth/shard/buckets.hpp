/// Which gradients leave together, and when. Pure logic.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "zeroth/shard/layout.hpp"

namespace zeroth::shard {

/// Collects flat units whose gradients are complete and hands them out in declared backward order, whatever the order
/// in which they were completed: the same buckets on every rank.
class Buckets {
 public:
  using Send = std::function<void(std::span<std::uint32_t const>)>;

  /// A bucket is sent before it would exceed `limit_count` elements or `limit_units` units; a larger unit goes alone.
  Buckets(Layout const& layout, std::int64_t limit_count, int limit_units, Send send);

  /// Sends what this closes.
  void complete(std::uint32_t flat);
  /// Sends what has been collected so far, if anything.
  void flush();
  /// All units are complete: sends the rest and begins again.
  void finish();
  /// Forgets what was completed and not sent.
  void reset() noexcept;
  [[nodiscard]] bool all_complete() const noexcept { return next_ == order_.size(); }
  /// The first unit in declared order that is not complete yet. Only where !all_complete().
  [[nodiscard]] std::uint32_t waits_for() const noexcept { return order_[next_]; }

  /// No bucket has more elements than this, padding included.
  [[nodiscard]] static std::int64_t largest_count(Layout const& layout, std::int64_t limit_count) noexcept;

 private:
  Layout const* layout_;
  std::int64_t limit_count_;
  std::size_t limit_units_;
  Send send_;
  std::vector<std::uint32_t> order_;
  std::vector<bool> completed_;
  std::size_t next_ = 0;  ///< In order_: the first that is not in a bucket.
  std::vector<std::uint32_t> bucket_;
  std::int64_t bucket_count_ = 0;
};

}  // namespace zeroth::shard
