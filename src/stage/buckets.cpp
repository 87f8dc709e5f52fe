// SPDX-License-Identifier: Apache-2.0
#include "stage/buckets.hpp"

#include <algorithm>

#include "zeroth/core/error.hpp"

namespace zeroth::stage {

Buckets::Buckets(shard::Layout const& layout, std::int64_t limit_count, int limit_units)
    : layout_{&layout},
      limit_count_{limit_count},
      limit_units_{static_cast<std::size_t>(limit_units)},
      order_{layout.completion_order().begin(), layout.completion_order().end()},
      completed_(layout.flats().size(), false),
      last_{order_.size()} {}

void Buckets::begin(std::uint32_t begin, std::uint32_t end) noexcept {
  // A flat unit's gradient completes in backward of the first unit that uses it, so those of later units complete
  // first.
  auto const before = [this](std::uint32_t unit) {
    return static_cast<std::size_t>(
        std::ranges::partition_point(
            order_, [&](shard::FlatId flat) { return index_of(layout_->flats()[flat].writers.front()) >= unit; }) -
        order_.begin());
  };
  reset();
  begin_ = end_ = before(end);
  last_ = before(begin);
}

/// The unit that would overflow a bucket is known before it is complete: the bucket does not wait for it.
Buckets::Bucket Buckets::next_full() {
  while (end_ < last_ && completed_[order_[end_]]) {
    count_ += count_at(end_++);
    bool const overflows = end_ < last_ && count_ + count_at(end_) > limit_count_;
    if (overflows || count_ >= limit_count_ || end_ - begin_ >= limit_units_) {
      return flush();
    }
  }
  return {};
}

std::int64_t Buckets::count_at(std::size_t place) const noexcept {
  return layout_->flats()[order_[place]].gradients().padded_count;
}

Buckets::Bucket Buckets::flush() noexcept {
  auto const bucket = Bucket{order_}.subspan(begin_, end_ - begin_);
  begin_ = end_;
  count_ = 0;
  return bucket;
}

Buckets::Bucket Buckets::finish() {
  ZEROTH_EXPECTS(all_complete(), "a micro-step's buckets are finished before all gradients are complete");
  auto const bucket = flush();
  reset();
  return bucket;
}

void Buckets::reset() noexcept {
  completed_.assign(completed_.size(), false);
  begin_ = end_ = 0;
  last_ = order_.size();
  count_ = 0;
}

std::int64_t Buckets::largest_count(shard::Layout const& layout, std::int64_t limit_count) noexcept {
  std::int64_t total = 0;
  std::int64_t largest = 0;
  for (auto const& flat : layout.flats()) {
    total += flat.gradients().padded_count;
    largest = std::max(largest, flat.gradients().padded_count);
  }
  return std::min(total, std::max(largest, limit_count));
}

}  // namespace zeroth::stage
