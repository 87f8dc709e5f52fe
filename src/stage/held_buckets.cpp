// SPDX-License-Identifier: Apache-2.0
#include "stage/held_buckets.hpp"

#include <algorithm>

namespace zeroth::stage {

HeldBuckets::HeldBuckets(shard::Layout const& layout, bool enabled) : waits_(layout.flats().size(), false) {
  auto const order = layout.completion_order();
  std::int64_t total = 0;
  for (auto const flat : order) {
    total += layout.flats()[flat].gradients().padded_count;
    if (enabled && layout.flats()[flat].writers.size() > 1) {
      first_ = flat;
    }
  }
  std::int64_t before = 0;
  for (auto const flat : order) {
    if (!first_ || flat == *first_) {
      break;
    }
    waits_[flat] = 2 * before >= total;
    before += layout.flats()[flat].gradients().padded_count;
  }
  held_.reserve(order.size());  // no step allocates
}

bool HeldBuckets::holds(Buckets::Bucket bucket) {
  if (bucket.empty() || !waits_[bucket.front()] || releases(bucket)) {
    return false;
  }
  held_.push_back(bucket);
  return true;
}

bool HeldBuckets::releases(Buckets::Bucket bucket) const noexcept {
  return first_ && std::ranges::find(bucket, *first_) != bucket.end();
}

}  // namespace zeroth::stage
