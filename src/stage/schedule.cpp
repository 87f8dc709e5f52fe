// SPDX-License-Identifier: Apache-2.0
#include "stage/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "stage/gradient_rehearsal.hpp"
#include "stage/policy.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::stage {

using shard::Placement;

std::string_view purpose_of(Turn const& turn) noexcept {
  return turn.pass == PassKind::evaluation ? "evaluation" : name_of(turn.phase);
}

PrefetchBudget budget_of(Settings const& settings) {
  bool const gathers = placements_for(settings).parameters != Placement::whole;
  return gathers ? PrefetchBudget{settings.prefetch_count, settings.max_live_count} : PrefetchBudget{};
}

ScheduleLimits limits_of(shard::Layout const& layout, Settings const& settings) {
  return limits_of(layout, settings, sweeps_of_micro_step(layout.unit_count()));
}

ScheduleLimits limits_of(shard::Layout const& layout, Settings const& settings, std::vector<Sweep> training) {
  auto const placements = placements_for(settings);
  Order order{layout, budget_of(settings), training};
  ScheduleLimits limits;
  limits.turns = order.turns(PassKind::training);
  limits.training = std::move(training);
  limits.bucket_count = settings.reduce_bucket_count;
  limits.bucket_units = std::numeric_limits<int>::max();
  if (placements.parameters != Placement::whole) {
    limits.parameter_slots = order.parameter_slots();
    limits.shortage = order.shortage();
  }
  if (placements.gradients != Placement::whole) {
    limits.gradient_slots = order.gradient_slots(settings.gradient_slots);
    if (!settings.sums_micro_steps) {  // otherwise slots are freed before there is a bucket
      // Half of the slots are being reduced while backward fills the other half.
      // A unit may have a flat unit of each kind.
      auto const kinds = [&](bool shard::FlatUnit::*has) { return std::ranges::any_of(layout.flats(), has) ? 2 : 1; };
      limits.bucket_units = std::max(1, settings.gradient_slots / 2) * kinds(&shard::FlatUnit::persistent) *
                            kinds(&shard::FlatUnit::matrices) * kinds(&shard::FlatUnit::fp32);
    }
  }
  return limits;
}

Schedule::Schedule(shard::Layout const& layout, Settings const& settings, ScheduleLimits const& limits,
                   shard::ShardManager& manager)
    : layout_{&layout},
      settings_{settings},
      manager_{&manager},
      gathers_{layout, Order{layout, budget_of(settings), limits.training}, limits.parameter_slots,
               placements_for(settings).parameters == Placement::whole, manager.parameters},
      bucket_count_{limits.bucket_count},
      buckets_{layout, limits.bucket_count, limits.bucket_units},
      held_{layout,
            settings.delayed_update && settings.overlap_comm && placements_for(settings).gradients == Placement::whole},
      one_order_{settings.single_communicator || !settings.overlap_comm ||
                 !manager.memory.context().device->has_host_memory()},
      users_left_(layout.flats().size(), 0),
      to_begin_(layout.flats().size(), 0) {
  updated_.reserve(layout.flats().size());
  persistent_.reserve(layout.flats().size());
  forward_.reserve(layout.unit_count());
}

void Schedule::begin_pass(PassKind pass, int passes_left, bool reduces, bool last) {
  gathers_.begin_pass(pass, passes_left);
  begin(reduces, last);
  ends_step_ = pass == PassKind::training && passes_left == 1;
}

void Schedule::begin_sweep(std::size_t sweep, bool reduces, bool last) {
  gathers_.begin_sweep(sweep);
  begin(reduces, last);
  auto const& units = order().sweeps()[sweep];
  buckets_.begin(units.begin, units.end);
  ends_step_ = sweep + 1 == order().sweeps().size();
}

void Schedule::begin(bool reduces, bool last) {
  reduces_ = reduces;
  last_ = last;
  for (auto const flat : users_left_.ids()) {
    users_left_[flat] = to_begin_[flat] = layout_->flats()[flat].writers.size();
  }
  went_back_ = false;
  open_backward_ = 0;
  forward_.clear();
}

void Schedule::open(Turn const& turn) {
  auto const purpose = purpose_of(turn);
  bool const writes = writes_gradients(turn.phase);
  if (writes) {
    begin_backward(purpose);
  } else if (turn.pass == PassKind::training && !went_back_) {
    forward_.push_back(turn.unit);
  }
  auto const decided = gathers_.decided();
  if (reads_parameters(turn.phase)) {
    gathers_.open(turn, purpose);
  }
  if (writes && !layout_->stays_open(turn.unit)) {
    expect_one_order(open_backward_ == 0 || gathers_.decided() == decided, layout_->flats_of(turn.unit));
    ++open_backward_;
  }
  if (reads_parameters(turn.phase)) {
    for (auto const flat : layout_->flats_of(turn.unit)) {
      manager_->parameters.await(flat, purpose);
    }
  }
  if (writes) {
    open_gradients(turn);
  }
}

/// Gathers and binds everything that backward turns of `stays_open` units need. Runs before the first backward turn of
/// any unit: see Order::opens_early().
void Schedule::begin_backward(std::string_view purpose) {
  if (!std::exchange(went_back_, true)) {
    gathers_.begin_backward(purpose);
    for (auto const unit : layout_->open_units()) {
      take_gradient_slots(unit);
    }
  }
}

void Schedule::close(Turn const& turn) {
  if (reads_parameters(turn.phase)) {
    for (auto const flat : layout_->flats_of(turn.unit)) {
      manager_->parameters.release(flat, purpose_of(turn));
    }
  }
  gathers_.carry_out();
  if (writes_gradients(turn.phase)) {
    open_backward_ -= layout_->stays_open(turn.unit) ? 0 : 1;
    for (auto const flat : layout_->gradients_of(turn.unit)) {
      manager_->gradients.end_contributions(flat);
    }
    close_gradients(turn);
  }
}

/// Throws if gathers and reductions must begin in one order on all ranks and this order would depend on the guards open
/// on this rank.
void Schedule::expect_one_order(bool good, std::span<shard::FlatId const> flats) const {
  ZEROTH_EXPECTS(good || !one_order_,
                 fmt::format("backward of unit \"{}\" while an earlier guard is open: a gather and a reduction of "
                             "gradients take turns here (overlap_comm is off, zeroth.single_communicator is on, or on "
                             "GPUs), and would begin in an order that depends on when that guard ends; end that guard "
                             "first, or set UnitOptions::stays_open for a unit whose guard is open around others'",
                             flats.empty() ? std::string{} : layout_->flats()[flats.front()].name));
}

void Schedule::reduce(Buckets::Bucket bucket) {
  if (!bucket.empty()) {
    expect_one_order(!gathers_.waits(), bucket);
    if (last_ && owed_) {
      apply_owed(bucket);
    }
    if (held_.holds(bucket)) {
      return;
    }
    manager_->gradients.reduce(bucket, last_);
    if (held_.releases(bucket)) {
      reduce_held();
    }
  }
}

void Schedule::reduce_held() {
  for (auto const bucket : held_.all()) {
    manager_->gradients.reduce(bucket, last_);
  }
  held_.clear();
}

void Schedule::pass_over(Turn const& turn) {
  begin_backward(purpose_of(turn));
  open_gradients(turn);
  close_gradients(turn);
}

void Schedule::open_gradients(Turn const& turn) {
  take_gradient_slots(turn.unit);
  for (auto const flat : layout_->gradients_of(turn.unit)) {
    to_begin_[flat] -= turn.last ? 1 : 0;
  }
}

void Schedule::take_gradient_slots(UnitId unit) {
  for (auto const flat : layout_->gradients_of(unit)) {
    if (layout_->flats()[flat].gradients().padded_count == 0 || manager_->gradients.begin(flat)) {
      continue;
    }
    flush_for(flat);
    ZEROTH_EXPECTS(
        manager_->gradients.begin(flat),
        fmt::format(
            "no gradient slot for unit \"{}\": all hold gradients that cannot be reduced before backward of unit "
            "\"{}\", which comes first in declared order; run backward in reverse order of the model's units, or "
            "raise zeroth.gradient_slots to {}",
            layout_->flats()[flat].name, layout_->flats()[buckets_.waits_for()].name,
            gradient_slots_for(*layout_, settings_, forward_)));
  }
}

/// Reduces the complete gradients, so that `flat` gets a slot. All ranks must send the same: throws if a unit has had
/// all its turns and is incomplete because of an open guard, which perhaps only this rank has.
void Schedule::flush_for(shard::FlatId flat) {
  if (!buckets_.all_complete()) {
    auto const next = buckets_.waits_for();
    ZEROTH_EXPECTS(
        to_begin_[next] > 0 || users_left_[next] == 0,
        fmt::format("no gradient slot for unit \"{}\": all are taken, and those of unit \"{}\" cannot be reduced "
                    "before its backward guard ends; end that guard first, or raise zeroth.gradient_slots",
                    layout_->flats()[flat].name, layout_->flats()[next].name));
  }
  reduce(buckets_.flush());
}

void Schedule::close_gradients(Turn const& turn) {
  for (auto const flat : layout_->gradients_of(turn.unit)) {
    if (layout_->flats()[flat].gradients().padded_count == 0 || !turn.last || --users_left_[flat] > 0) {
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
    reduce_held();
  }
  // Not before: other stages may wait for messages that this one has yet to send and receive. If one stage trains by
  // actions, each action of the last micro-step is a pass, and only the one that writes gradients ends the step.
  if (ends_step_ && last_) {
    manager_->gradients.end_passes();
    owed_ = false;  // every unit's last gradients have been reduced
  }
}

/// The passes have used these units for the last time.
void Schedule::apply_owed(std::span<shard::FlatId const> flats) {
  manager_->optimizer.await_decision();
  for (auto const flat : flats) {
    manager_->parameters.await_uses(flat);
    manager_->optimizer.update(flat);
  }
  manager_->parameters.publish(flats);
}

void Schedule::settle() {
  if (std::exchange(owed_, false)) {
    apply_owed(layout_->update_order());
  }
}

void Schedule::update() {
  if (settings_.delayed_update) {
    owed_ = true;
    return;
  }
  manager_->optimizer.await_decision();
  manager_->optimizer.begin_updates(manager_->gradients.frozen());
  // Until the last gather is done, other ranks may still read this rank's slices.
  manager_->parameters.await_gathers();
  starts_over_ ? manager_->parameters.start_over() : manager_->parameters.drop_trainable();
  gathers_.begin_update();
  // Links between replicas may be the slowest, so publish to them in bucket-sized batches.
  std::int64_t const most = manager_->parameters.publishes_to_replicas() ? bucket_count_ : 0;
  std::int64_t count = 0;
  for (auto const flat : layout_->update_order()) {
    if (layout_->flats()[flat].persistent) {
      manager_->optimizer.update(flat);
      persistent_.push_back(flat);
      continue;
    }
    auto const more = layout_->flats()[flat].trainable.padded_count;
    if (count > most - more) {
      publish();
      count = 0;
    }
    manager_->optimizer.update(flat);
    updated_.push_back(flat);
    count += more;
  }
  publish();
  // They are small, and the next forward begins after the last update anyway.
  manager_->parameters.publish(persistent_);
  persistent_.clear();
}

void Schedule::start_over() {
  manager_->parameters.start_over();
  manager_->gradients.start_over();
  gathers_.begin_update();
  for (auto const flat : layout_->update_order()) {
    gathers_.after_update(flat);
  }
}

void Schedule::publish() {
  manager_->parameters.publish(updated_);
  for (auto const flat : updated_) {
    // Gathers of the units that the next pass uses first run during the remaining updates.
    gathers_.after_update(flat);
  }
  updated_.clear();
}

}  // namespace zeroth::stage
