// SPDX-License-Identifier: Apache-2.0
/// The declared order of turns: which units are used when, which to gather ahead, and how many slots that needs.
/// Pure logic: the same on every rank, regardless of what has completed.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "shard/layout.hpp"
#include "shard/slots.hpp"
#include "stage/sweep.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::stage {

enum class PassKind : std::uint8_t { training, evaluation };

/// A unit's turn in a pass.
struct Turn {
  PassKind pass = PassKind::training;
  Phase phase = Phase::forward;
  UnitId unit{};
  bool last = true;  ///< If it writes gradients: the unit's last use in this pass.
};

/// Limits for gathering parameters ahead.
struct PrefetchBudget {
  std::int64_t prefetch_count = 0;  ///< Units are gathered while fewer elements than this are ahead; 0 disables.
  std::int64_t max_live_count = 0;  ///< Limit of prefetch: gathered elements, including those in use.
};

/// Training turns that are not gathered ahead, because their units and those of the previous turn do not fit together.
struct PrefetchShortage {
  std::int64_t turns = 0;
  std::int64_t needed_count = 0;  ///< The smallest max_live_count that leaves none.
};

/// Evaluation runs forward through all units, again and again. Training repeats its sweeps: those of a micro-step, or
/// in a pipeline those of all actions of a step.
class Order {
 public:
  /// Uses the sweeps of a micro-step.
  Order(shard::Layout const& layout, PrefetchBudget const& budget);
  Order(shard::Layout const& layout, PrefetchBudget const& budget, std::vector<Sweep> training);

  /// Length of the cycle: turn t + turns(pass) equals turn t.
  [[nodiscard]] std::int64_t turns(PassKind pass) const noexcept { return std::ssize(units_[place_of(pass)]); }
  /// For evaluation, and for training whose sweeps are those of a micro-step.
  [[nodiscard]] std::int64_t position(Turn const& turn) const noexcept;
  /// The position of that unit's turn in sweep number `sweep` of training, whatever its phase. Forward that is
  /// recomputed counts as the same turn.
  [[nodiscard]] std::int64_t position(Turn const& turn, std::size_t sweep) const noexcept;
  [[nodiscard]] std::vector<Sweep> const& sweeps() const noexcept { return sweeps_; }  ///< The training sweeps.
  /// In backward, a unit that stays open begins early, around the turns of other units, and at another time on each
  /// rank. So from the first backward turn on its parameters are gathered and its gradients have memory.
  [[nodiscard]] bool opens_early(Turn const& turn) const noexcept {
    return turn.phase == Phase::backward && layout_->stays_open(turn.unit);
  }
  [[nodiscard]] Turn turn_at(PassKind pass, std::int64_t position) const noexcept;
  [[nodiscard]] UnitId unit_at(PassKind pass, std::int64_t position) const noexcept {
    return units_[place_of(pass)][static_cast<std::size_t>(position % turns(pass))];
  }
  /// Turns until `flat` is used again after `position`: from 1 to turns(pass).
  [[nodiscard]] std::int64_t next_use(PassKind pass, std::int64_t position, shard::FlatId flat) const noexcept;
  /// The flat unit to evict: the unpinned one in `slots` whose next use after `position` is furthest away, whichever
  /// slot it is in. nullopt if all are pinned.
  [[nodiscard]] std::optional<shard::FlatId> last_needed(PassKind pass, std::int64_t position,
                                                         std::span<shard::Slot const> slots) const noexcept;
  /// Fills `ahead` with the flat units to gather while the unit at `position` is in use, nearest first, without those
  /// that it uses itself. Looks up to position `end`. Position -1 is before the first turn.
  void ahead(PassKind pass, std::int64_t position, std::int64_t end, std::vector<shard::FlatId>& ahead);
  /// Like ahead(), without the units that were ahead of the previous position. The cost grows with the new turns only.
  void newly_ahead(PassKind pass, std::int64_t position, std::int64_t end, std::vector<shard::FlatId>& ahead);

  /// Zero if prefetch is off.
  [[nodiscard]] PrefetchShortage shortage();
  /// The parameter slots that hold the units of every turn in declared order together with those ahead of it.
  [[nodiscard]] shard::SlotCounts parameter_slots();
  /// The gradient slots that hold the gradients of `units_at_once` units, beyond those that ties keep open.
  [[nodiscard]] shard::SlotCounts gradient_slots(int units_at_once) const;
  /// Turns examined so far: the cost of all queries.
  [[nodiscard]] std::int64_t looked_at() const noexcept { return looked_at_; }

 private:
  template <class Changed>
  class Window;
  [[nodiscard]] static std::size_t place_of(PassKind pass) noexcept { return static_cast<std::size_t>(pass); }
  void add(PassKind pass, Sweep const& sweep);
  /// For each position from -1 on, the first later position whose units exceed the budget together with those before
  /// them.
  [[nodiscard]] std::vector<std::int64_t> measure_windows(PassKind pass);
  [[nodiscard]] std::int64_t window_end(PassKind pass, std::int64_t position) const noexcept;
  /// Starts a search that has already found the units of `position`; returns their elements.
  std::int64_t begin_search(PassKind pass, std::int64_t position);
  [[nodiscard]] bool is_new(shard::FlatId flat) noexcept;
  void find(PassKind pass, std::int64_t begin, std::int64_t end, std::vector<shard::FlatId>& found);

  shard::Layout const* layout_;
  PrefetchBudget budget_;
  std::vector<Sweep> sweeps_;
  std::vector<std::int64_t> begins_;                                    // first position of each sweep, and the end
  std::array<std::vector<UnitId>, 2> units_;                            // by pass and position
  std::array<ById<shard::FlatId, std::vector<std::int64_t>>, 2> uses_;  // by pass: positions that use the flat unit
  std::array<std::vector<std::int64_t>, 2> windows_;  // window ends by pass and position, from -1; empty without
                                                      // prefetch
  ById<shard::FlatId, std::uint64_t> seen_;           // the last search that found the flat unit
  std::uint64_t search_ = 0;
  std::int64_t looked_at_ = 0;
};

}  // namespace zeroth::stage
