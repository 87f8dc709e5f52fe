// SPDX-License-Identifier: Apache-2.0
/// The declared order of turns: what is used when, what to have ready ahead of it, how many slots that takes.
/// Pure logic: the same on every rank, whatever has or has not completed.
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
  bool last = true;  ///< Where it writes gradients: the unit's last use in this pass.
};

/// How far ahead parameters are gathered.
struct PrefetchBudget {
  std::int64_t prefetch_count = 0;  ///< Units are gathered while fewer elements than this are ahead. 0: none.
  std::int64_t max_live_count = 0;  ///< Gathered elements, those in use included, that prefetch does not exceed.
};

/// Turns of a training pass that are not gathered ahead, because what they use does not fit beside the turn before.
struct PrefetchShortage {
  std::int64_t turns = 0;
  std::int64_t needed_count = 0;  ///< The least max_live_count with which there are none.
};

/// Evaluation goes forward through all units, over and over. So does training with its sweeps: those of a micro-step,
/// or in a pipeline those of all actions of a step.
class Order {
 public:
  /// With the sweeps of a micro-step.
  Order(shard::Layout const& layout, PrefetchBudget const& budget);
  Order(shard::Layout const& layout, PrefetchBudget const& budget, std::vector<Sweep> training);

  /// Turns until all begins again; turn t + turns(pass) is turn t once more.
  [[nodiscard]] std::int64_t turns(PassKind pass) const noexcept { return std::ssize(units_[place_of(pass)]); }
  /// Of training, where that is a micro-step's, or of evaluation.
  [[nodiscard]] std::int64_t position(Turn const& turn) const noexcept;
  /// In sweep number `sweep` of training: the turn of that unit there, whichever phase it is in. Forward is run again
  /// behind itself.
  [[nodiscard]] std::int64_t position(Turn const& turn, std::size_t sweep) const noexcept;
  [[nodiscard]] std::vector<Sweep> const& sweeps() const noexcept { return sweeps_; }  ///< Of training.
  /// In backward a unit that stays open begins around the turns of others, before its place, and not on all ranks at
  /// the same time: what it uses is gathered, and its gradients have memory, from the first backward turn on.
  [[nodiscard]] bool opens_early(Turn const& turn) const noexcept {
    return turn.phase == Phase::backward && layout_->stays_open(turn.unit);
  }
  [[nodiscard]] Turn turn_at(PassKind pass, std::int64_t position) const noexcept;
  [[nodiscard]] UnitId unit_at(PassKind pass, std::int64_t position) const noexcept {
    return units_[place_of(pass)][static_cast<std::size_t>(position % turns(pass))];
  }
  /// Turns until `flat` is used again after `position`, at least 1, at most turns(pass).
  [[nodiscard]] std::int64_t next_use(PassKind pass, std::int64_t position, shard::FlatId flat) const noexcept;
  /// The flat unit to evict: the one in `slots` that is not pinned and whose next use after `position` comes last.
  /// It does not depend on which slot it is in. None if all are pinned.
  [[nodiscard]] std::optional<shard::FlatId> last_needed(PassKind pass, std::int64_t position,
                                                         std::span<shard::Slot const> slots) const noexcept;
  /// Flat units to have gathered while the unit at `position` is in use, nearest first, without those that it uses
  /// itself. Looks no further than position `end`. Position -1 is before the first turn. Clears and fills `ahead`.
  void ahead(PassKind pass, std::int64_t position, std::int64_t end, std::vector<shard::FlatId>& ahead);
  /// As ahead(), without what the position before had ahead of it already. Costs time by what is new.
  void newly_ahead(PassKind pass, std::int64_t position, std::int64_t end, std::vector<shard::FlatId>& ahead);

  /// None where nothing is to be gathered ahead.
  [[nodiscard]] PrefetchShortage shortage();
  /// Parameter slots so that every turn in declared order finds its units and those ahead of it a place.
  [[nodiscard]] shard::SlotCounts parameter_slots();
  /// Gradient slots so that `units_at_once` units' gradients can be held beyond the units that ties keep open.
  [[nodiscard]] shard::SlotCounts gradient_slots(int units_at_once) const;
  /// Turns looked at so far: what all this costs.
  [[nodiscard]] std::int64_t looked_at() const noexcept { return looked_at_; }

 private:
  template <class Changed>
  class Window;
  [[nodiscard]] static std::size_t place_of(PassKind pass) noexcept { return static_cast<std::size_t>(pass); }
  void add(PassKind pass, Sweep const& sweep);
  /// For each position from -1 the first one after it whose units do not fit into the budget with those before them.
  [[nodiscard]] std::vector<std::int64_t> measure_windows(PassKind pass);
  [[nodiscard]] std::int64_t window_end(PassKind pass, std::int64_t position) const noexcept;
  /// Starts a search that has found what the unit at `position` uses; elements of that.
  std::int64_t begin_search(PassKind pass, std::int64_t position);
  [[nodiscard]] bool is_new(shard::FlatId flat) noexcept;
  void find(PassKind pass, std::int64_t begin, std::int64_t end, std::vector<shard::FlatId>& found);

  shard::Layout const* layout_;
  PrefetchBudget budget_;
  std::vector<Sweep> sweeps_;
  std::vector<std::int64_t> begins_;                                    // the first position of each, and of the end
  std::array<std::vector<UnitId>, 2> units_;                            // by pass and position
  std::array<ById<shard::FlatId, std::vector<std::int64_t>>, 2> uses_;  // by pass: the positions that use it
  std::array<std::vector<std::int64_t>, 2> windows_;  // by pass and position, from -1; empty without prefetch
  ById<shard::FlatId, std::uint64_t> seen_;           // the search that found it last
  std::uint64_t search_ = 0;
  std::int64_t looked_at_ = 0;
};

}  // namespace zeroth::stage
