// SPDX-License-Identifier: Apache-2.0
#include "stage/gather_count.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "stage/gathers.hpp"
#include "stage/policy.hpp"

namespace zeroth::stage {
namespace {

/// Stands in for shard::Parameters in decisions about gathers, without any parameters.
class Rehearsed {
 public:
  explicit Rehearsed(shard::Layout const& layout)
      : layout_{&layout}, gathered_(layout.flats().size(), 0), gathers_(layout.flats().size(), 0) {}

  [[nodiscard]] bool gathered(shard::FlatId flat) const noexcept {
    return layout_->flats()[flat].gathered_count() == 0 || gathered_[flat] != 0;
  }
  [[nodiscard]] bool gather(shard::FlatId flat, std::string_view /*purpose*/) noexcept {
    gathered_[flat] = 1;
    ++gathers_[flat];
    return true;
  }
  void evict(shard::FlatId flat) noexcept { gathered_[flat] = 0; }
  void pin(shard::FlatId /*flat*/) noexcept {}
  [[nodiscard]] bool pinned(shard::FlatId /*flat*/) const noexcept { return false; }
  [[nodiscard]] bool reads_ahead() const noexcept { return false; }
  void read_ahead(shard::FlatId /*flat*/) noexcept {}
  /// Marks everything that an update changes as not gathered.
  void drop_trainable() noexcept {
    for (auto const flat : gathered_.ids()) {
      if (layout_->flats()[flat].trainable.padded_count > 0) {
        gathered_[flat] = 0;
      }
    }
  }
  [[nodiscard]] ById<shard::FlatId, char> const& all_gathered() const noexcept { return gathered_; }
  [[nodiscard]] ById<shard::FlatId, std::int64_t> const& gathers() const noexcept { return gathers_; }

 private:
  shard::Layout const* layout_;
  ById<shard::FlatId, char> gathered_;
  ById<shard::FlatId, std::int64_t> gathers_;
};

/// Opens turns one after the other, as a step does.
void open_turns(std::int64_t begin, std::int64_t end, Gathers<Rehearsed>& gathers) {
  for (auto position = begin; position < end; ++position) {
    gathers.open(gathers.order().turn_at(PassKind::training, position), {});
  }
}

void rehearse_step(shard::Layout const& layout, Settings const& settings, Gathers<Rehearsed>& gathers,
                   Rehearsed& parameters) {
  auto const turns = gathers.order().turns(PassKind::training);
  auto passes = settings.batch.accumulation;
  if (settings.pipeline.stages > 1) {
    passes = 0;
    std::int64_t begin = 0;
    for (std::size_t sweep = 0; sweep < gathers.order().sweeps().size(); ++sweep) {
      auto const end = begin + gathers.order().sweeps()[sweep].turns();
      gathers.begin_sweep(sweep);
      open_turns(std::exchange(begin, end), end, gathers);
    }
  }
  for (auto left = passes; left > 0; --left) {
    gathers.begin_pass(PassKind::training, static_cast<int>(left));
    open_turns(0, turns / 2, gathers);
    gathers.begin_backward({});
    open_turns(turns / 2, turns, gathers);
  }
  parameters.drop_trainable();
  gathers.begin_update();
  for (auto const flat : layout.update_order()) {
    gathers.after_update(flat);
  }
}

}  // namespace

GatherCount count_gathers(shard::Layout const& layout, Settings const& settings, ScheduleLimits const& limits) {
  if (placements_for(settings).parameters == shard::Placement::whole) {
    return {ById<shard::FlatId, std::int64_t>(layout.flats().size(), 0), 1};
  }
  Rehearsed parameters{layout};
  Gathers<Rehearsed> gathers{layout, Order{layout, budget_of(settings), limits.training}, limits.parameter_slots, false,
                             parameters};
  // Frozen units stay gathered across updates, so the pattern may repeat only after several steps.
  struct Begin {
    ById<shard::FlatId, char> gathered;
    ById<shard::FlatId, std::int64_t> gathers;
  };
  std::vector<Begin> steps;
  auto const same = [&](Begin const& step) { return step.gathered == parameters.all_gathered(); };
  auto found = steps.end();
  do {
    steps.push_back({parameters.all_gathered(), parameters.gathers()});
    rehearse_step(layout, settings, gathers, parameters);
    found = std::ranges::find_if(steps, same);
  } while (found == steps.end());
  GatherCount result{parameters.gathers(), steps.end() - found};
  for (auto const flat : result.gathers.ids()) {
    result.gathers[flat] -= found->gathers[flat];
  }
  return result;
}

}  // namespace zeroth::stage
