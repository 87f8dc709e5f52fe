#include "zeroth/stage/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "zeroth/core/error.hpp"
#include "zeroth/stage/policy.hpp"

namespace zeroth::stage {

using shard::Placement;

std::string_view name_of(Phase phase) noexcept { return phase == Phase::forward ? "forward" : "backward"; }

std::string_view purpose_of(Turn const& turn) noexcept {
  return turn.pass == PassKind::evaluation ? "evaluation" : name_of(turn.phase);
}

namespace {

/// Nothing is gathered ahead where parameters are whole.
PrefetchBudget budget_of(Settings const& settings) {
  bool const gathers = placements_for(settings).parameters == Placement::shard;
  return gathers ? PrefetchBudget{settings.prefetch_count, settings.max_live_count} : PrefetchBudget{};
}

}  // namespace

ScheduleLimits limits_of(shard::Layout const& layout, Settings const& settings) {
  auto const placements = placements_for(settings);
  Order order{layout, budget_of(settings)};
  ScheduleLimits limits;
  limits.bucket_count = settings.reduce_bucket_count;
  limits.bucket_units = std::numeric_limits<int>::max();
  if (placements.parameters == Placement::shard) {
    limits.parameter_slots = order.parameter_slots();
    limits.shortage = order.shortage();
  }
  if (placements.gradients == Placement::shard) {
    limits.gradient_slots = order.gradient_slots(settings.gradient_slots);
    if (!settings.sums_micro_steps) {  // otherwise slots are given up before there is a bucket
      // Half of the slots are on their way while backward fills the other half.
      limits.bucket_units = std::max(1, settings.gradient_slots / 2);
    }
  }
  return limits;
}

Schedule::Schedule(shard::Layout const& layout, Settings const& settings, ScheduleLimits const& limits,
                   shard::ShardManager& manager)
    : layout_{&layout},
      manager_{&manager},
      order_{layout, budget_of(settings)},
      gathers_{placements_for(settings).parameters == Placement::shard},
      buckets_{layout, limits.bucket_count, limits.bucket_units,
               [this](std::span<std::uint32_t const> bucket) { manager_->reduce(bucket, last_); }},
      first_used_(layout.flats().size(), 0),
      uses_left_(layout.flats().size(), 0) {
  ahead_.reserve(layout.flats().size());
}

void Schedule::begin_pass(PassKind pass, int passes_left, bool reduces, bool last) {
  pass_ = pass;
  end_ = order_.turns(pass) * passes_left;
  reduces_ = reduces;
  last_ = last;
  for (std::size_t flat = 0; flat < uses_left_.size(); ++flat) {
    uses_left_[flat] = layout_->flats()[flat].uses_per_micro_step;
  }
}

void Schedule::gather(std::uint32_t flat, std::string_view purpose) {
  manager_->gather(flat, purpose, [this](std::uint32_t other) { return order_.next_use(pass_, position_, other); });
}

void Schedule::prefetch(std::string_view purpose) {
  if (!gathers_) {
    return;
  }
  // What was ahead of the turn before is still gathered, unless something was given up meanwhile.
  Prefetched const now{pass_, position_, end_, manager_->given_up()};
  if (Prefetched before = now; --before.position, before == prefetched_) {
    order_.newly_ahead(pass_, position_, end_, ahead_);
  } else {
    order_.ahead(pass_, position_, end_, ahead_);
  }
  for (auto const flat : ahead_) {
    if (!manager_->gathered(flat)) {
      gather(flat, purpose);
    }
  }
  prefetched_ = now;
}

void Schedule::open(Turn const& turn) {
  auto const purpose = purpose_of(turn);
  auto const flats = layout_->flats_of(turn.unit);
  position_ = order_.position(turn);
  bool missed = false;
  for (auto const flat : flats) {
    if (!manager_->gathered(flat)) {
      gather(flat, purpose);
      missed = true;
    }
    manager_->pin(flat);
  }
  misses_ += missed ? 1 : 0;
  prefetch(purpose);
  for (auto const flat : flats) {
    manager_->await(flat, purpose);
  }
  if (turn.phase == Phase::backward) {
    open_gradients(turn.unit);
  }
}

void Schedule::close(Turn const& turn) {
  for (auto const flat : layout_->flats_of(turn.unit)) {
    manager_->release(flat, purpose_of(turn));
  }
  if (turn.phase == Phase::backward) {
    manager_->end_contributions();
    close_gradients(turn.unit);
  }
}

void Schedule::open_gradients(std::uint32_t unit) {
  for (auto const flat : layout_->flats_of(unit)) {
    if (layout_->flats()[flat].trainable.padded_count == 0 || manager_->begin_gradient(flat)) {
      continue;
    }
    buckets_.flush();
    ZEROTH_EXPECTS(
        manager_->begin_gradient(flat),
        fmt::format(
            "no gradient slot for unit \"{}\": all hold gradients that cannot be reduced before backward of unit "
            "\"{}\", which comes first in declared order; run backward in reverse order of the model's units, or "
            "raise zeroth.gradient_slots",
            layout_->flats()[flat].name, layout_->flats()[buckets_.waits_for()].name));
  }
}

void Schedule::close_gradients(std::uint32_t unit) {
  for (auto const flat : layout_->flats_of(unit)) {
    if (layout_->flats()[flat].trainable.padded_count == 0 || --uses_left_[flat] > 0) {
      continue;
    }
    manager_->end_gradient(flat, reduces_);
    if (reduces_) {
      buckets_.complete(flat);
    }
  }
}

void Schedule::end_pass() {
  if (reduces_) {
    buckets_.finish();
  }
}

void Schedule::update(optim::AdamRules const& rules) {
  manager_->begin_update();
  manager_->drop_gathered(shard::Drop::trainable);
  pass_ = PassKind::training;
  position_ = -1;
  std::ranges::fill(first_used_, char{0});
  if (gathers_) {
    order_.ahead(pass_, position_, order_.turns(pass_), ahead_);
    for (auto const flat : ahead_) {
      first_used_[flat] = 1;
    }
  }
  auto const completion = layout_->completion_order();
  for (auto flat = completion.rbegin(); flat != completion.rend(); ++flat) {
    manager_->update(*flat, rules);
    manager_->publish(*flat);
    // What the next pass uses first is on its way while the rest is still being updated.
    if (first_used_[*flat] != 0 && !manager_->gathered(*flat)) {
      gather(*flat, "forward");
    }
  }
}

}  // namespace zeroth::stage
