// SPDX-License-Identifier: Apache-2.0
#include "stage/gradient_rehearsal.hpp"

#include <algorithm>
#include <vector>

#include "shard/slots.hpp"
#include "stage/buckets.hpp"
#include "stage/schedule.hpp"

namespace zeroth::stage {
namespace {

/// Dry-runs the slots and buckets of the schedule's backward.
class Backward {
 public:
  Backward(shard::Layout const& layout, Settings const& settings)
      : layout_{&layout},
        keeps_nothing_{settings.sums_micro_steps},
        limits_{limits_of(layout, settings)},
        pool_{limits_.gradient_slots},
        buckets_{layout, limits_.bucket_count, limits_.bucket_units} {
    for (auto const& flat : layout.flats()) {
      users_left_.push_back(flat.writers.size());
    }
  }

  /// Returns false if no slot is free.
  [[nodiscard]] bool begin(UnitId unit) {
    return std::ranges::all_of(layout_->gradients_of(unit), [&](auto flat) {
      if (!has_gradient(flat) || pool_.find(flat) != nullptr || pool_.bind(flat) != nullptr) {
        return true;
      }
      send(buckets_.flush());
      return pool_.bind(flat) != nullptr;
    });
  }
  /// Call after the unit's last use.
  void end(UnitId unit) {
    for (auto const flat : layout_->gradients_of(unit)) {
      if (has_gradient(flat) && --users_left_[flat] == 0) {
        give_up(flat, keeps_nothing_);
        buckets_.complete(flat);
        for (auto bucket = buckets_.next_full(); !bucket.empty(); bucket = buckets_.next_full()) {
          send(bucket);
        }
      }
    }
  }

 private:
  [[nodiscard]] bool has_gradient(shard::FlatId flat) const {
    return layout_->flats()[flat].gradients().padded_count > 0;
  }
  void give_up(shard::FlatId flat, bool now) {
    if (now) {
      pool_.unbind(*pool_.find(flat));
    }
  }
  void send(Buckets::Bucket bucket) {
    for (auto const flat : bucket) {
      give_up(flat, !keeps_nothing_);
    }
  }

  shard::Layout const* layout_;
  bool keeps_nothing_;  // gradients are added to another buffer as soon as they are complete
  ScheduleLimits limits_;
  shard::SlotPool pool_;
  Buckets buckets_;
  ById<shard::FlatId, std::size_t> users_left_;
};

[[nodiscard]] bool suffices(shard::Layout const& layout, Settings const& settings, std::span<UnitId const> forward) {
  ById<UnitId, std::size_t> uses(layout.unit_count(), 0);
  for (auto const unit : forward) {
    ++uses[unit];
  }
  Backward backward{layout, settings};
  auto const begin = [&](UnitId unit) { return backward.begin(unit); };
  if (!std::ranges::all_of(layout.open_units(), begin)) {
    return false;
  }
  for (auto unit = forward.rbegin(); unit != forward.rend(); ++unit) {
    if (!begin(*unit)) {
      return false;
    }
    if (--uses[*unit] == 0) {
      backward.end(*unit);
    }
  }
  return true;
}

}  // namespace

int gradient_slots_for(shard::Layout const& layout, Settings const& settings, std::span<UnitId const> forward) {
  auto with = settings;
  auto const most = static_cast<int>(layout.flats().size());
  do {
    ++with.gradient_slots;
  } while (with.gradient_slots < most && !suffices(layout, with, forward));
  return with.gradient_slots;
}

}  // namespace zeroth::stage
