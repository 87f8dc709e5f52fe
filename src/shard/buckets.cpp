#include "zeroth/shard/buckets.hpp"

#include <algorithm>
#include <utility>

#include "zeroth/core/error.hpp"

namespace zeroth::shard {

Buckets::Buckets(Layout const& layout, std::int64_t limit_count, int limit_units, Send send)
    : layout_{&layout},
      limit_count_{limit_count},
      limit_units_{static_cast<std::size_t>(limit_units)},
      send_{std::move(send)},
      order_{layout.completion_order().begin(), layout.completion_order().end()},
      completed_(layout.flats().size(), false) {
  bucket_.reserve(order_.size());
}

void Buckets::complete(std::uint32_t flat) {
  completed_[flat] = true;
  while (next_ < order_.size() && completed_[order_[next_]]) {
    auto const joins = order_[next_++];
    auto const count = layout_->flats()[joins].trainable.padded_count;
    if (bucket_count_ + count > limit_count_) {
      flush();
    }
    bucket_.push_back(joins);
    bucket_count_ += count;
    if (bucket_count_ >= limit_count_ || bucket_.size() >= limit_units_) {
      flush();
    }
  }
}

void Buckets::flush() {
  if (!bucket_.empty()) {
    send_(bucket_);
    bucket_.clear();
    bucket_count_ = 0;
  }
}

void Buckets::finish() {
  ZEROTH_EXPECTS(all_complete(), "a micro-step's buckets are finished before all gradients are complete");
  flush();
  reset();
}

void Buckets::reset() noexcept {
  completed_.assign(completed_.size(), false);
  next_ = 0;
  bucket_.clear();
  bucket_count_ = 0;
}

std::int64_t Buckets::largest_count(Layout const& layout, std::int64_t limit_count) noexcept {
  std::int64_t total = 0;
  std::int64_t largest = 0;
  for (auto const& flat : layout.flats()) {
    total += flat.trainable.padded_count;
    largest = std::max(largest, flat.trainable.padded_count);
  }
  return std::min(total, std::max(largest, limit_count));
}

}  // namespace zeroth::shard
