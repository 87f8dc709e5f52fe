// SPDX-License-Identifier: Apache-2.0
#include "stage/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "stage/policy.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::stage {

using shard::Placement;

std::string_view name_of(Phase phase) noexcept { return phase == Phase::forward ? "forward" : "backward"; }

std::string_view purpose_of(Turn const& turn) noexcept {
  return turn.pass == PassKind::evaluation ? "evaluation" : name_of(turn.phase);
}

namespace {

/// Nothing is gathered ahead where parameters are whole.
PrefetchBudget budget_of(Settings const& settings) {
  bool const gathers = placements_for(settings).parameters != Placement::whole;
  return gathers ? PrefetchBudget{settings.prefetch_count, settings.max_live_count} : PrefetchBudget{};
}

}  // namespace

ScheduleLimits limits_of(shard::Layout const& layout, Settings const& settings) {
  auto const placements = placements_for(settings);
  Order order{layout, budget_of(settings)};
  ScheduleLimits limits;
  limits.bucket_count = settings.reduce_bucket_count;
  limits.bucket_units = std::numeric_limits<int>::max();
  if (placements.parameters != Placement::whole) {
    limits.parameter_slots = order.parameter_slots();
    limits.shortage = order.shortage();
  }
  if (placements.gradients != Placement::whole) {
    limits.gradient_slots = order.gradient_slots(settings.gradient_slots);
    if (!settings.sums_micro_steps) {  // otherwise slots are given up before there is a bucket
      // Half of the slots are on their way while backward fills the other half.
      bool const persist = std::ranges::any_of(layout.flats(), &shard::FlatUnit::persistent);
      limits.bucket_units = std::max(1, settings.gradient_slots / 2) * (persist ? 2 : 1);  // two flat units of a unit
    }
  }
  return limits;
}

Schedule::Schedule(shard::Layout const& layout, Settings const& settings, ScheduleLimits const& limits,
                   shard::ShardManager& manager)
    : layout_{&layout},
      manager_{&manager},
      order_{layout, budget_of(settings)},
      gathers_{placements_for(settings).parameters != Placement::whole},
      bucket_count_{limits.bucket_count},
      buckets_{layout, limits.bucket_count, limits.bucket_units},
      first_used_(layout.flats().size(), 0),
      users_left_(layout.flats().size(), 0) {
  ahead_.reserve(layout.flats().size());
  updated_.reserve(layout.flats().size());
  persistent_.reserve(layout.flats().size());
}

void Schedule::begin_pass(PassKind pass, int passes_left, bool reduces, bool last) {
  pass_ = pass;
  end_ = order_.turns(pass) * passes_left;
  reduces_ = reduces;
  last_ = last;
  for (auto const flat : users_left_.ids()) {
    users_left_[flat] = layout_->flats()[flat].users.size();
  }
}

void Schedule::gather(shard::FlatId flat, std::string_view purpose) {
  auto& parameters = manager_->parameters;
  while (!parameters.gather(flat, purpose)) {
    auto const evicted = order_.last_needed(pass_, position_, parameters.slots_for(flat));
    ZEROTH_EXPECTS(evicted,
                   fmt::format("no parameter slot for unit \"{}\": all of its size hold units whose guards are "
                               "open; end one of them first, or declare a unit whose guard is open around "
                               "others' by UnitOptions::stays_open, which plans a slot for it",
                               layout_->flats()[flat].name));
    parameters.evict(*evicted);
  }
}

bool Schedule::gather_ahead(shard::FlatId flat, std::string_view purpose) {
  auto& parameters = manager_->parameters;
  auto const next_use = [this](shard::FlatId other) { return order_.next_use(pass_, position_, other); };
  while (!parameters.gather(flat, purpose)) {
    auto const evicted = order_.last_needed(pass_, position_, parameters.slots_for(flat));
    if (!evicted || next_use(*evicted) <= next_use(flat)) {
      return false;
    }
    parameters.evict(*evicted);
  }
  return true;
}

void Schedule::prefetch(std::string_view purpose) {
  if (!gathers_) {
    return;
  }
  // What was ahead of the turn before is still gathered, unless something was evicted meanwhile.
  Prefetched const now{pass_, position_, end_, manager_->parameters.evictions()};
  if (Prefetched before = now; --before.position, before == prefetched_) {
    order_.newly_ahead(pass_, position_, end_, ahead_);
  } else {
    order_.ahead(pass_, position_, end_, ahead_);
  }
  prefetched_ = now;
  for (auto const flat : ahead_) {
    if (!manager_->parameters.gathered(flat) && !gather_ahead(flat, purpose)) {
      prefetched_ = {};  // open guards hold slots that it would have: try again at the next turn
    }
  }
}

void Schedule::open(Turn const& turn) {
  auto const purpose = purpose_of(turn);
  auto const flats = layout_->flats_of(turn.unit);
  if (!order_.opens_early(turn)) {
    position_ = order_.position(turn);
  }
  bool missed = false;
  for (auto const flat : flats) {
    if (!manager_->parameters.gathered(flat)) {
      gather(flat, purpose);
      missed = true;
    }
    manager_->parameters.pin(flat);
  }
  misses_ += missed ? 1 : 0;
  prefetch(purpose);
  for (auto const flat : flats) {
    manager_->parameters.await(flat, purpose);
  }
  if (turn.phase == Phase::backward) {
    open_gradients(turn.unit);
  }
}

void Schedule::close(Turn const& turn) {
  for (auto const flat : layout_->flats_of(turn.unit)) {
    manager_->parameters.release(flat, purpose_of(turn));
  }
  if (turn.phase == Phase::backward) {
    for (auto const flat : layout_->flats_of(turn.unit)) {
      manager_->gradients.end_contributions(flat);
    }
    close_gradients(turn);
  }
}

void Schedule::reduce(Buckets::Bucket bucket) {
  if (!bucket.empty()) {
    manager_->gradients.reduce(bucket, last_);
  }
}

void Schedule::pass_over(Turn const& turn) {
  open_gradients(turn.unit);
  close_gradients(turn);
}

void Schedule::open_gradients(UnitId unit) {
  for (auto const flat : layout_->flats_of(unit)) {
    if (layout_->flats()[flat].trainable.padded_count == 0 || manager_->gradients.begin(flat)) {
      continue;
    }
    reduce(buckets_.flush());
    ZEROTH_EXPECTS(
        manager_->gradients.begin(flat),
        fmt::format(
            "no gradient slot for unit \"{}\": all hold gradients that cannot be reduced before backward of unit "
            "\"{}\", which comes first in declared order; run backward in reverse order of the model's units, or "
            "raise zeroth.gradient_slots",
            layout_->flats()[flat].name, layout_->flats()[buckets_.waits_for()].name));
  }
}

void Schedule::close_gradients(Turn const& turn) {
  for (auto const flat : layout_->flats_of(turn.unit)) {
    if (layout_->flats()[flat].trainable.padded_count == 0 || !turn.last || --users_left_[flat] > 0) {
      continue;
    }
    manager_->gradients.end(flat, reduces_);
    if (reduces_) {
      buckets_.complete(flat);
      for (auto bucket = buckets_.next_full(); !bucket.empty(); bucket = buckets_.next_full()) {
        reduce(bucket);
      }
    }
  }
}

void Schedule::end_pass() {
  if (reduces_) {
    reduce(buckets_.finish());
  }
}

void Schedule::update() {
  manager_->optimizer.await_decision();
  // Other ranks may still be reading this rank's slices until the last gather is done.
  manager_->parameters.await_gathers();
  manager_->parameters.drop(shard::Drop::trainable);
  pass_ = PassKind::training;
  position_ = -1;
  std::ranges::fill(first_used_, char{0});
  if (gathers_) {
    order_.ahead(pass_, position_, order_.turns(pass_), ahead_);
    for (auto const flat : ahead_) {
      first_used_[flat] = 1;
    }
  }
  // Replicas are as far apart as ranks can be: what they are handed goes in transactions that are worth it.
  std::int64_t const most = manager_->parameters.publishes_to_replicas() ? bucket_count_ : 0;
  std::int64_t count = 0;
  auto const completion = layout_->completion_order();
  for (auto flat = completion.rbegin(); flat != completion.rend(); ++flat) {
    if (layout_->flats()[*flat].persistent) {
      manager_->optimizer.update(*flat);
      persistent_.push_back(*flat);
      continue;
    }
    auto const more = layout_->flats()[*flat].trainable.padded_count;
    if (count > most - more) {
      publish();
      count = 0;
    }
    manager_->optimizer.update(*flat);
    updated_.push_back(*flat);
    count += more;
  }
  publish();
  // They are small, and the next forward begins behind the last update anyway.
  manager_->parameters.publish(persistent_);
  persistent_.clear();
}

void Schedule::publish() {
  manager_->parameters.publish(updated_);
  for (auto const flat : updated_) {
    // What the next pass uses first is on its way while the rest is still being updated.
    if (first_used_[flat] != 0 && !manager_->parameters.gathered(flat)) {
      gather(flat, "forward");
    }
  }
  updated_.clear();
}

}  // namespace zeroth::stage
