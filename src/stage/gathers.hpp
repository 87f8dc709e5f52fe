// SPDX-License-Identifier: Apache-2.0
/// When which parameters are gathered, and what has to leave for them.
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

/// The decisions about gathers, turn by turn: of an engine's parameters, or of a rehearsal's, which only counts them.
/// `Parameters` is shard::Parameters, or has as much of it as is called here.
///
/// Decisions follow from the turns that were opened and from the declared order, never from the guards that happen to
/// be open: a rank that skips a unit has its turns at another time than the others, and must decide as they do. What is
/// decided and has to wait for a guard to end begins when that ends, before all that was decided later.
template <class Parameters>
class Gathers {
 public:
  /// All but `slots` and `order` outlive it. With `none` nothing is gathered: parameters are whole.
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

  /// `passes_left`, this one included, will follow without an update between them.
  void begin_pass(PassKind pass, int passes_left) noexcept {
    pass_ = pass;
    sweep_.reset();
    end_ = order_.turns(pass) * passes_left;
    follow_drops();
  }
  /// The same for sweep number `sweep` of training alone, in a step of all of them.
  void begin_sweep(std::size_t sweep) noexcept {
    begin_pass(PassKind::training, 1);
    sweep_ = sweep;
  }
  /// Before the first backward turn of a pass: what stays open is gathered, so that its backward turns, which come at
  /// any time, gather nothing.
  void begin_backward(std::string_view purpose) {
    for (auto const unit : layout_->open_units()) {
      gather_missing(unit, purpose);
    }
  }
  /// What the turn uses is gathered, or on its way, and pinned; what comes next is started. Throws ContractError where
  /// an open guard holds the slot that this takes in declared order.
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
  /// Starts what is decided, as far as no open guard holds its slot: also to be called when a guard has ended.
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
          fmt::format("unit \"{}\" has no parameter slot, though one was decided on", layout_->flats()[flat].name));
    }
    waiting_.clear();
    carried_out_ = 0;
  }
  /// Does an open guard hold a slot that a gather takes?
  [[nodiscard]] bool waits() const noexcept { return !waiting_.empty(); }
  [[nodiscard]] std::int64_t decided() const noexcept { return decisions_; }  ///< How many gathers so far.
  /// An update begins, after the last pass: what forward begins with is gathered again behind its own update.
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
  [[nodiscard]] std::int64_t misses() const noexcept { return misses_; }  ///< Turns that had to wait for all of it.

 private:
  /// Decided on, which is what counts here.
  [[nodiscard]] bool gathered(shard::FlatId flat) noexcept {
    return none_ || layout_->flats()[flat].gathered_count() == 0 || decided_.find(flat) != nullptr;
  }
  /// What `unit` uses is not evicted meanwhile: by 1, then by -1.
  void hold(UnitId unit, int change) noexcept {
    for (auto const flat : layout_->flats_of(unit)) {
      if (auto* const slot = decided_.find(flat)) {
        slot->pins += change;
      }
    }
  }
  /// True if something was.
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

  /// Into the slot of one that is used later, if need be.
  void gather(shard::FlatId flat, std::string_view purpose) {
    auto* slot = decided_.bind(flat);
    std::optional<shard::FlatId> evicted;
    if (slot == nullptr) {
      evicted = order_.last_needed(pass_, position_, decided_.slots_for(flat));
      ZEROTH_EXPECTS(evicted, fmt::format("unit \"{}\" has no parameter slot: its turn needs more than are planned",
                                          layout_->flats()[flat].name));
      decided_.unbind(*decided_.find(*evicted));
      slot = decided_.bind(flat);
    }
    slot->pins = layout_->stays_open(flat) ? 1 : 0;  // it has a slot of its own
    waiting_.push_back({flat, evicted, purpose});
    ++decisions_;
  }

  /// As gather, but takes no slot from what is used sooner: false then.
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

  /// A turn needs `flat`, whose gather waits.
  [[noreturn]] void refuse(shard::FlatId flat) const {
    auto const& first = waiting_[carried_out_];
    auto const& name = [this](shard::FlatId of) -> std::string const& { return layout_->flats()[of].name; };
    throw ContractError{fmt::format(
        "no parameter slot for unit \"{}\": in declared order unit \"{}\" takes that of unit \"{}\", whose guard is "
        "open; end it first, or declare a unit whose guard is open around others' by UnitOptions::stays_open, which "
        "plans a slot for it",
        name(flat), name(first.flat), name(*first.evicted))};
  }

  /// What was gathered and is not valid any more was dropped, between passes.
  void follow_drops() noexcept {
    for (auto& slot : decided_.slots()) {
      if (slot.flat && !parameters_->gathered(*slot.flat)) {
        slot.pins = 0;
        decided_.unbind(slot);
      }
    }
  }

  void prefetch(std::string_view purpose) {
    // What was ahead of the turn before is still gathered, unless something was evicted meanwhile.
    Prefetched const now{pass_, position_, end_, decided_.unbound()};
    if (Prefetched before = now; --before.position, before == prefetched_) {
      order_.newly_ahead(pass_, position_, end_, ahead_);
    } else {
      order_.ahead(pass_, position_, end_, ahead_);
    }
    prefetched_ = now;
    for (auto const flat : ahead_) {
      if (!gathered(flat) && !gather_ahead(flat, purpose)) {
        prefetched_ = {};  // what is used sooner holds the slots that it would have: try again at the next turn
      }
    }
  }

  /// From disks, what the next turn will gather.
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
  /// What is, or will be, in the slots of `parameters_`. Its pins are those of the turn that opens.
  shard::SlotPool decided_;
  bool none_;
  Parameters* parameters_;
  PassKind pass_ = PassKind::training;
  std::optional<std::size_t> sweep_;
  std::int64_t position_ = 0, end_ = 0;
  ById<shard::FlatId, char> first_used_;  // forward begins with it
  std::vector<shard::FlatId> ahead_, read_ahead_;
  struct Decision {
    shard::FlatId flat;
    std::optional<shard::FlatId> evicted;
    std::string_view purpose;
  };
  std::vector<Decision> waiting_;  // in their order, the first ones carried out
  std::size_t carried_out_ = 0;
  /// For what turn everything ahead was gathered, and how many gathered units had been evicted by then.
  struct Prefetched {
    PassKind pass = PassKind::training;
    std::int64_t position = -2, end = 0, evictions = 0;
    friend bool operator==(Prefetched const&, Prefetched const&) = default;
  } prefetched_;
  std::int64_t misses_ = 0, decisions_ = 0;
};

}  // namespace zeroth::stage
