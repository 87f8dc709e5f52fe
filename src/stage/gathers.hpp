// SPDX-License-Identifier: Apache-2.0
/// Decides when parameters are gathered, and which are evicted for them.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shard/layout.hpp"
#include "shard/slots.hpp"
#include "stage/order.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::stage {

/// The decisions about gathers, turn by turn: for an engine's parameters, or for a dry run that only counts.
/// `Parameters` is shard::Parameters, or has the members that are called here.
///
/// Decisions follow from the turns that were opened and from the declared order, never from the open guards: a rank
/// that skips a unit takes its turns at another time than the others, and must decide as they do. A decided gather that
/// has to wait for a guard starts when the guard ends, before all gathers decided later.
template <class Parameters>
class Gathers {
 public:
  /// Arguments other than `slots` and `order` must outlive it. With `none` nothing is gathered: parameters are whole.
  Gathers(shard::Layout const& layout, Order order, shard::SlotCounts const& slots, bool none, Parameters& parameters)
      : layout_{&layout},
        order_{std::move(order)},
        decided_{slots},
        none_{none},
        parameters_{&parameters},
        first_used_(layout.flats().size(), 0) {
    ahead_.reserve(layout.flats().size());
    read_ahead_.reserve(layout.flats().size());
    waiting_.reserve(2 * layout.flats().size());
  }

  /// `passes_left` passes, this one included, follow without an update between them.
  void begin_pass(PassKind pass, int passes_left) noexcept {
    pass_ = pass;
    sweep_.reset();
    end_ = order_.turns(pass) * passes_left;
    follow_drops();
  }
  /// Begins sweep number `sweep` alone, in a training step of all sweeps.
  void begin_sweep(std::size_t sweep) noexcept {
    begin_pass(PassKind::training, 1);
    sweep_ = sweep;
  }
  /// Call before the first backward turn of a pass: gathers the units that stay open. Their backward turns, which may
  /// come at any time, then gather nothing.
  void begin_backward(std::string_view purpose) {
    for (auto const unit : layout_->open_units()) {
      gather_missing(unit, purpose);
    }
  }
  /// Gathers and pins the units of `turn`, and starts the gathers for the next turns. Throws ContractError if an open
  /// guard holds the slot that a gather takes in declared order.
  void open(Turn const& turn, std::string_view purpose) {
    bool const early = order_.opens_early(turn);
    if (!early) {
      position_ = sweep_ ? order_.position(turn, *sweep_) : order_.position(turn);
      misses_ += gather_missing(turn.unit, purpose) ? 1 : 0;
    }
    for (auto const flat : layout_->flats_of(turn.unit)) {
      if (!parameters_->gathered(flat)) {
        refuse(flat);
      }
      parameters_->pin(flat);
    }
    if (!none_ && !early) {
      hold(turn.unit, 1);
      prefetch(purpose);
      hold(turn.unit, -1);
      carry_out();
      read_ahead();
    }
  }
  /// Starts decided gathers up to the first one whose slot an open guard holds. Call it also when a guard has ended.
  void carry_out() {
    for (; carried_out_ < waiting_.size(); ++carried_out_) {
      auto const& [flat, evicted, purpose] = waiting_[carried_out_];
      if (evicted && parameters_->pinned(*evicted)) {
        return;
      }
      if (evicted) {
        parameters_->evict(*evicted);
      }
      ZEROTH_EXPECTS(
          parameters_->gather(flat, purpose),
          fmt::format("unit \"{}\" has no parameter slot, although one was decided on", layout_->flats()[flat].name));
    }
    waiting_.clear();
    carried_out_ = 0;
  }
  /// Whether a decided gather waits for the slot of an open guard.
  [[nodiscard]] bool waits() const noexcept { return !waiting_.empty(); }
  [[nodiscard]] std::int64_t decided() const noexcept { return decisions_; }  ///< Number of gathers so far.
  /// Call when an update begins, after the last pass: the units that forward uses first are gathered again right after
  /// their own update.
  void begin_update() {
    pass_ = PassKind::training;
    position_ = -1;
    follow_drops();
    std::ranges::fill(first_used_, char{0});
    if (!none_) {
      order_.ahead(pass_, position_, order_.turns(pass_), ahead_);
      for (auto const flat : ahead_) {
        first_used_[flat] = 1;
      }
    }
  }
  void after_update(shard::FlatId flat) {
    if (first_used_[flat] != 0 && !gathered(flat)) {
      gather(flat, "forward");
      carry_out();
    }
  }

  [[nodiscard]] Order const& order() const noexcept { return order_; }
  [[nodiscard]] std::int64_t misses() const noexcept { return misses_; }  ///< Turns that waited for a gather.

 private:
  /// Whether `flat` needs no gather or one was decided, even if it has not started.
  [[nodiscard]] bool gathered(shard::FlatId flat) noexcept {
    return none_ || layout_->flats()[flat].gathered_count() == 0 || decided_.find(flat) != nullptr;
  }
  /// Change 1 protects the flat units of `unit` from eviction; change -1 ends that.
  void hold(UnitId unit, int change) noexcept {
    for (auto const flat : layout_->flats_of(unit)) {
      if (auto* const slot = decided_.find(flat)) {
        slot->pins += change;
      }
    }
  }
  /// Returns true if something was missing.
  bool gather_missing(UnitId unit, std::string_view purpose) {
    if (none_) {
      return false;
    }
    bool missed = false;
    hold(unit, 1);
    for (auto const flat : layout_->flats_of(unit)) {
      if (!gathered(flat)) {
        gather(flat, purpose);
        hold_slot(flat);
        missed = true;
      }
    }
    hold(unit, -1);
    carry_out();
    return missed;
  }
  void hold_slot(shard::FlatId flat) noexcept { ++decided_.find(flat)->pins; }

  /// Decides a gather, into a free slot or into that of the unit that is used last.
  void gather(shard::FlatId flat, std::string_view purpose) {
    auto* slot = decided_.bind(flat);
    std::optional<shard::FlatId> evicted;
    if (slot == nullptr) {
      evicted = order_.last_needed(pass_, position_, decided_.slots_for(flat));
      ZEROTH_EXPECTS(evicted,
                     fmt::format("unit \"{}\" has no parameter slot: its turn needs more slots than are planned",
                                 layout_->flats()[flat].name));
      decided_.unbind(*decided_.find(*evicted));
      slot = decided_.bind(flat);
    }
    slot->pins = layout_->stays_gathered(flat) ? 1 : 0;  // in a slot of its own
    waiting_.push_back({flat, evicted, purpose});
    ++decisions_;
  }

  /// Like gather(), but does not evict a unit that is used sooner: then returns false.
  [[nodiscard]] bool gather_ahead(shard::FlatId flat, std::string_view purpose) {
    if (!decided_.has_free(flat)) {
      auto const next_use = [this](shard::FlatId other) { return order_.next_use(pass_, position_, other); };
      auto const evicted = order_.last_needed(pass_, position_, decided_.slots_for(flat));
      if (!evicted || next_use(*evicted) <= next_use(flat)) {
        return false;
      }
    }
    gather(flat, purpose);
    return true;
  }

  /// Throws because a turn needs `flat`, whose gather waits.
  [[noreturn]] void refuse(shard::FlatId flat) const {
    auto const& first = waiting_[carried_out_];
    auto const& name = [this](shard::FlatId of) -> std::string const& { return layout_->flats()[of].name; };
    throw ContractError{
        fmt::format("no parameter slot for unit \"{}\": in declared order unit \"{}\" takes that of unit \"{}\", whose "
                    "guard is open; end that guard first, or set UnitOptions::stays_open for a unit whose guard is "
                    "open around others', which plans a slot for it",
                    name(flat), name(first.flat), name(*first.evicted))};
  }

  /// Updates decided_ after invalid parameters were dropped between passes.
  void follow_drops() noexcept {
    for (auto& slot : decided_.slots()) {
      if (slot.flat && !parameters_->gathered(*slot.flat)) {
        slot.pins = 0;
        decided_.unbind(slot);
      }
    }
  }

  void prefetch(std::string_view purpose) {
    // The units ahead of the previous turn are still gathered, unless something was evicted since.
    Prefetched const now{pass_, position_, end_, decided_.unbound()};
    if (Prefetched before = now; --before.position, before == prefetched_) {
      order_.newly_ahead(pass_, position_, end_, ahead_);
    } else {
      order_.ahead(pass_, position_, end_, ahead_);
    }
    prefetched_ = now;
    for (auto const flat : ahead_) {
      if (!gathered(flat) && !gather_ahead(flat, purpose)) {
        prefetched_ = {};  // units that are used sooner hold the slots: try again at the next turn
      }
    }
  }

  /// Starts disk reads for the gathers of the next turn.
  void read_ahead() {
    if (!parameters_->reads_ahead() || !waiting_.empty() || position_ + 1 >= std::min(end_, order_.turns(pass_))) {
      return;
    }
    for (auto const flat : layout_->flats_of(order_.unit_at(pass_, position_ + 1))) {
      parameters_->read_ahead(flat);
    }
    order_.newly_ahead(pass_, position_ + 1, end_, read_ahead_);
    for (auto const flat : read_ahead_) {
      parameters_->read_ahead(flat);
    }
  }

  shard::Layout const* layout_;
  Order order_;
  /// The contents of the slots of `parameters_` after all decided gathers. Pins belong to the turn being opened.
  shard::SlotPool decided_;
  bool none_;
  Parameters* parameters_;
  PassKind pass_ = PassKind::training;
  std::optional<std::size_t> sweep_;
  std::int64_t position_ = 0, end_ = 0;
  ById<shard::FlatId, char> first_used_;  // used first by forward
  std::vector<shard::FlatId> ahead_, read_ahead_;
  struct Decision {
    shard::FlatId flat;
    std::optional<shard::FlatId> evicted;
    std::string_view purpose;
  };
  std::vector<Decision> waiting_;  // in order of decision, the first carried_out_ of them carried out
  std::size_t carried_out_ = 0;
  /// The last turn for which everything ahead was gathered, and the number of evictions by then.
  struct Prefetched {
    PassKind pass = PassKind::training;
    std::int64_t position = -2, end = 0, evictions = 0;
    friend bool operator==(Prefetched const&, Prefetched const&) = default;
  } prefetched_;
  std::int64_t misses_ = 0, decisions_ = 0;
};

}  // namespace zeroth::stage
