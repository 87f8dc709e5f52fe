// SPDX-License-Identifier: Apache-2.0
#include "stage/order.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace zeroth::stage {

using shard::SlotCounts;

/// A window of turns [begin, end) of a pass, and the flat units that they use: calls `changed(flat, 1)` or `(flat, -1)`
/// when the window begins or ceases to use one. It moves turn by turn, so the cost of a walk through a pass depends on
/// the number of turns, not on the width of windows. Turn -1 uses nothing.
template <class Changed>
class Order::Window {
 public:
  Window(Order& order, PassKind pass, Changed changed)
      : order_{&order}, pass_{pass}, changed_{std::move(changed)}, uses_(order.layout_->flats().size()) {}

  [[nodiscard]] std::int64_t end() const noexcept { return end_; }
  void extend() { count(end_++, 1); }
  void shorten() { count(--end_, -1); }
  /// Moves to the next position; the window has at least that position's own turn.
  void advance() {
    count(begin_++, -1);
    if (end_ == begin_) {
      extend();
    }
  }

 private:
  void count(std::int64_t position, int change) {
    ++order_->looked_at_;
    if (position < 0 || order_->turns(pass_) == 0) {
      return;
    }
    for (auto const flat : order_->layout_->flats_of(order_->unit_at(pass_, position))) {
      bool const before = uses_[flat] > 0;
      uses_[flat] += change;
      if (before != (uses_[flat] > 0)) {
        changed_(flat, change);
      }
    }
  }

  Order* order_;
  PassKind pass_;
  Changed changed_;
  ById<shard::FlatId, int> uses_;  // number of turns in the window that use it
  std::int64_t begin_ = -1, end_ = 0;
};

Order::Order(shard::Layout const& layout, PrefetchBudget const& budget)
    : Order{layout, budget, sweeps_of_micro_step(layout.unit_count())} {}

Order::Order(shard::Layout const& layout, PrefetchBudget const& budget, std::vector<Sweep> training)
    : layout_{&layout}, budget_{budget}, sweeps_{std::move(training)}, seen_(layout.flats().size()) {
  for (auto& uses : uses_) {
    uses.assign(layout.flats().size(), {});
  }
  for (auto const& sweep : sweeps_) {
    begins_.push_back(turns(PassKind::training));
    add(PassKind::training, sweep);
  }
  begins_.push_back(turns(PassKind::training));
  add(PassKind::evaluation, {Phase::forward, 0, layout.unit_count()});
  if (budget.prefetch_count <= 0) {
    return;
  }
  for (auto const pass : {PassKind::training, PassKind::evaluation}) {
    windows_[place_of(pass)] = measure_windows(pass);
  }
}

void Order::add(PassKind pass, Sweep const& sweep) {
  auto& units = units_[place_of(pass)];
  for (std::int64_t turn = 0; turn < sweep.turns(); ++turn) {
    auto const unit = static_cast<UnitId>(sweep.phase == Phase::forward ? sweep.begin + turn : sweep.end - 1 - turn);
    for (auto const flat : layout_->flats_of(unit)) {
      uses_[place_of(pass)][flat].push_back(std::ssize(units));
    }
    units.push_back(unit);
  }
}

std::int64_t Order::position(Turn const& turn) const noexcept {
  return turn.phase == Phase::forward ? std::int64_t{index_of(turn.unit)}
                                      : turns(turn.pass) - 1 - std::int64_t{index_of(turn.unit)};
}

std::int64_t Order::position(Turn const& turn, std::size_t sweep) const noexcept {
  auto const& [phase, begin, end] = sweeps_[sweep];
  auto const unit = std::int64_t{index_of(turn.unit)};
  return begins_[sweep] + (phase == Phase::forward ? unit - std::int64_t{begin} : std::int64_t{end} - 1 - unit);
}

Turn Order::turn_at(PassKind pass, std::int64_t position) const noexcept {
  auto const sweep = std::ranges::upper_bound(begins_, position % turns(pass)) - begins_.begin() - 1;
  auto const phase = pass == PassKind::evaluation ? Phase::forward : sweeps_[static_cast<std::size_t>(sweep)].phase;
  return {pass, phase, unit_at(pass, position)};
}

std::int64_t Order::next_use(PassKind pass, std::int64_t position, shard::FlatId flat) const noexcept {
  auto const cycle = turns(pass);
  auto const& uses = uses_[place_of(pass)][flat];
  if (uses.empty()) {
    return cycle;
  }
  auto const in_cycle = position % cycle;  // -1 before the first turn
  auto const next = std::ranges::upper_bound(uses, in_cycle);
  return (next == uses.end() ? uses.front() + cycle : *next) - in_cycle;
}

std::optional<shard::FlatId> Order::last_needed(PassKind pass, std::int64_t position,
                                                std::span<shard::Slot const> slots) const noexcept {
  std::optional<shard::FlatId> found;
  std::int64_t farthest = 0;
  for (auto const& slot : slots) {
    if (!slot.flat || slot.pins > 0) {
      continue;
    }
    auto const next = next_use(pass, position, *slot.flat);
    if (next > farthest || (next == farthest && *slot.flat < *found)) {
      found = slot.flat;
      farthest = next;
    }
  }
  return found;
}

std::int64_t Order::begin_search(PassKind pass, std::int64_t position) {
  ++search_;
  std::int64_t in_use = 0;
  if (position >= 0) {
    for (auto const flat : layout_->flats_of(unit_at(pass, position))) {
      in_use += is_new(flat) ? layout_->flats()[flat].gathered_count() : 0;
    }
  }
  return in_use;
}

bool Order::is_new(shard::FlatId flat) noexcept { return std::exchange(seen_[flat], search_) != search_; }

std::vector<std::int64_t> Order::measure_windows(PassKind pass) {
  std::int64_t all = 0;
  for (auto const flat : layout_->flats().ids()) {
    all += uses_[place_of(pass)][flat].empty() ? 0 : layout_->flats()[flat].gathered_count();
  }
  std::int64_t live = 0;
  Window window{*this, pass,
                [&](shard::FlatId flat, int change) { live += change * layout_->flats()[flat].gathered_count(); }};
  std::vector<std::int64_t> ends;
  for (std::int64_t position = -1; position < turns(pass); ++position) {
    auto const in_use = begin_search(pass, position);
    auto const enough = [&] { return live - in_use >= budget_.prefetch_count || live == all; };
    // Units in use at the previous turn may be ahead now: then a shorter window has as many elements ahead.
    for (bool shorter = true; shorter && window.end() > position + 1;) {
      bool const too_much = live > budget_.max_live_count;
      window.shorten();
      shorter = too_much || enough();
      if (!shorter) {
        window.extend();
      }
    }
    // Every unit occurs within turns(pass); looking further finds nothing new.
    while (window.end() < position + turns(pass) && !enough()) {
      window.extend();
      if (live > budget_.max_live_count) {
        window.shorten();
        break;
      }
    }
    ends.push_back(window.end());
    window.advance();
  }
  return ends;
}

std::int64_t Order::window_end(PassKind pass, std::int64_t position) const noexcept {
  auto const& windows = windows_[place_of(pass)];
  return windows.empty() ? position + 1 : windows[static_cast<std::size_t>(position + 1)];
}

void Order::find(PassKind pass, std::int64_t begin, std::int64_t end, std::vector<shard::FlatId>& found) {
  for (auto next = begin; next < end; ++next) {
    ++looked_at_;
    for (auto const flat : layout_->flats_of(unit_at(pass, next))) {
      if (is_new(flat)) {
        found.push_back(flat);
      }
    }
  }
}

void Order::ahead(PassKind pass, std::int64_t position, std::int64_t end, std::vector<shard::FlatId>& ahead) {
  ahead.clear();
  begin_search(pass, position);
  find(pass, position + 1, std::min(end, window_end(pass, position)), ahead);
}

void Order::newly_ahead(PassKind pass, std::int64_t position, std::int64_t end, std::vector<shard::FlatId>& ahead) {
  ahead.clear();
  begin_search(pass, position);
  find(pass, std::max(position + 1, window_end(pass, position - 1)), std::min(end, window_end(pass, position)), ahead);
}

PrefetchShortage Order::shortage() {
  PrefetchShortage found;
  for (std::int64_t next = 0; budget_.prefetch_count > 0 && next < turns(PassKind::training); ++next) {
    auto const in_use = begin_search(PassKind::training, next - 1);
    std::int64_t live = in_use;
    for (auto const flat : layout_->flats_of(unit_at(PassKind::training, next))) {
      live += is_new(flat) ? layout_->flats()[flat].gathered_count() : 0;
    }
    if (live > in_use && live > budget_.max_live_count) {
      ++found.turns;
      found.needed_count = std::max(found.needed_count, live);
    }
  }
  return found;
}

SlotCounts Order::parameter_slots() {
  auto const& flats = layout_->flats();
  ById<shard::FlatId, std::int64_t> counts;
  ById<shard::FlatId, char> fp32;
  for (auto const& flat : flats) {
    counts.push_back(flat.gathered_count());
    fp32.push_back(flat.fp32 ? 1 : 0);
  }
  auto result = shard::classify(counts, fp32);
  for (auto const pass : {PassKind::training, PassKind::evaluation}) {
    std::vector<int> needed(result.classes.size());
    Window window{*this, pass, [&](shard::FlatId flat, int change) {
                    if (result.class_of[flat] >= 0) {
                      needed[static_cast<std::size_t>(result.class_of[flat])] += change;
                    }
                  }};
    for (std::int64_t position = -1; position < turns(pass); ++position) {
      while (window.end() < window_end(pass, position)) {
        window.extend();
      }
      while (window.end() > window_end(pass, position)) {
        window.shorten();
      }
      for (std::size_t c = 0; c < needed.size(); ++c) {
        result.classes[c].slots = std::max(result.classes[c].slots, needed[c]);
      }
      window.advance();
    }
  }
  // Units that stay gathered have additional slots of their own.
  for (auto const flat : flats.ids()) {
    if (result.class_of[flat] >= 0 && layout_->stays_gathered(flat)) {
      auto& slot_class = result.classes[static_cast<std::size_t>(result.class_of[flat])];
      slot_class.slots = std::min(slot_class.slots + 1, static_cast<int>(slot_class.flats.size()));
    }
  }
  return result;
}

SlotCounts Order::gradient_slots(int units_at_once) const {
  auto const& flats = layout_->flats();
  ById<shard::FlatId, std::int64_t> counts;
  ById<shard::FlatId, char> fp32;
  for (auto const& flat : flats) {
    counts.push_back(flat.gradients().padded_count);
    fp32.push_back(flat.fp32 ? 1 : 0);
  }
  auto result = shard::classify(counts, fp32);
  std::vector<int> opened(layout_->unit_count() + std::size_t{1});  // by unit: change of the number of open gradients
  for (auto& slot_class : result.classes) {
    // A tied parameter's gradient is open from backward of its last user to backward of its first; for a unit that
    // stays open, possibly from the start of backward.
    std::ranges::fill(opened, 0);
    for (auto const flat : slot_class.flats) {
      bool const early = layout_->stays_open(flat);
      ++opened[index_of(flats[flat].writers.front())];
      --opened[early ? layout_->unit_count() : index_of(flats[flat].writers.back()) + std::size_t{1}];
    }
    std::int64_t open = 0;
    std::int64_t most = 0;
    for (auto const more : opened) {
      open += more;
      most = std::max(most, open);
    }
    slot_class.slots = static_cast<int>(std::min(std::ssize(slot_class.flats), most + units_at_once - 1));
  }
  return result;
}

}  // namespace zeroth::stage
