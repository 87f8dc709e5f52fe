// SPDX-License-Identifier: Apache-2.0
#include "stage/gather_count.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include "shard/slots.hpp"
#include "stage/gathers.hpp"
#include "stage/policy.hpp"

namespace zeroth::stage {
namespace {

/// As much of shard::Parameters as decisions about gathers ask for, without any.
class Rehearsed {
 public:
  Rehearsed(shard::Layout const& layout, shard::SlotCounts const& slots)
      : layout_{&layout}, pool_{slots}, gathers_(layout.flats().size(), 0) {}

  [[nodiscard]] bool gathered(shard::FlatId flat) noexcept {
    return layout_->flats()[flat].gathered_count() == 0 || pool_.find(flat) != nullptr;
  }
  [[nodiscard]] bool gather(shard::FlatId flat, std::string_view /*purpose*/) {
    bool const bound = pool_.bind(flat) != nullptr;
    gathers_[flat] += bound ? 1 : 0;
    return bound;
  }
  [[nodiscard]] std::span<shard::Slot const> slots_for(shard::FlatId flat) const noexcept {
    return pool_.slots_for(flat);
  }
  void evict(shard::FlatId flat) noexcept { pool_.unbind(*pool_.find(flat)); }
  void pin(shard::FlatId flat) noexcept { change_pins(flat, 1); }
  void release(shard::FlatId flat) noexcept { change_pins(flat, -1); }
  [[nodiscard]] std::int64_t evictions() const noexcept { return pool_.unbound(); }
  [[nodiscard]] bool reads_ahead() const noexcept { return false; }
  void read_ahead(shard::FlatId /*flat*/) noexcept {}
  /// What an update changes is not valid any more.
  void drop_trainable() noexcept {
    for (auto& slot : pool_.slots()) {
      if (slot.flat && layout_->flats()[*slot.flat].trainable.padded_count > 0) {
        pool_.unbind(slot);
      }
    }
  }
  void begin_count() noexcept { std::ranges::fill(gathers_, 0); }
  [[nodiscard]] ById<shard::FlatId, std::int64_t> const& gathers() const noexcept { return gathers_; }

 private:
  void change_pins(shard::FlatId flat, int change) noexcept {
    if (auto* const slot = pool_.find(flat)) {
      slot->pins += change;
    }
  }

  shard::Layout const* layout_;
  shard::SlotPool pool_;
  ById<shard::FlatId, std::int64_t> gathers_;
};

void rehearse_step(shard::Layout const& layout, std::int64_t passes, Gathers<Rehearsed>& gathers,
                   Rehearsed& parameters) {
  auto const turns = gathers.order().turns(PassKind::training);
  for (auto left = passes; left > 0; --left) {
    gathers.begin_pass(PassKind::training, static_cast<int>(left));
    for (std::int64_t position = 0; position < turns; ++position) {
      auto const turn = gathers.order().turn_at(PassKind::training, position);
      gathers.open(turn, {});
      for (auto const flat : layout.flats_of(turn.unit)) {
        parameters.release(flat);
      }
    }
  }
  parameters.drop_trainable();
  gathers.begin_update();
  auto const completion = layout.completion_order();
  for (auto flat = completion.rbegin(); flat != completion.rend(); ++flat) {
    gathers.after_update(*flat);
  }
}

}  // namespace

ById<shard::FlatId, std::int64_t> count_gathers(shard::Layout const& layout, Settings const& settings,
                                                ScheduleLimits const& limits) {
  if (placements_for(settings).parameters == shard::Placement::whole) {
    return ById<shard::FlatId, std::int64_t>(layout.flats().size(), 0);
  }
  Rehearsed parameters{layout, limits.parameter_slots};
  Gathers<Rehearsed> gathers{layout, budget_of(settings), false, parameters};
  auto const passes = settings.batch.accumulation;
  rehearse_step(layout, passes, gathers, parameters);
  parameters.begin_count();
  rehearse_step(layout, passes, gathers, parameters);
  return parameters.gathers();
}

}  // namespace zeroth::stage
