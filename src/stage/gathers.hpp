// SPDX-License-Identifier: Apache-2.0
/// When which parameters are gathered, and what has to leave for them.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "shard/layout.hpp"
#include "stage/order.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::stage {

/// The decisions about gathers, turn by turn: of an engine's parameters, or of a rehearsal's, which only counts them.
/// `Parameters` is shard::Parameters, or has as much of it as is called here.
template <class Parameters>
class Gathers {
 public:
  /// All outlive it. With `none` nothing is gathered: parameters are whole.
  Gathers(shard::Layout const& layout, PrefetchBudget const& budget, bool none, Parameters& parameters)
      : layout_{&layout},
        order_{layout, budget},
        none_{none},
        parameters_{&parameters},
        first_used_(layout.flats().size(), 0) {
    ahead_.reserve(layout.flats().size());
    read_ahead_.reserve(layout.flats().size());
  }

  /// `passes_left`, this one included, will follow without an update between them.
  void begin_pass(PassKind pass, int passes_left) noexcept {
    pass_ = pass;
    end_ = order_.turns(pass) * passes_left;
  }
  /// What the turn uses is gathered, or on its way, and pinned; what comes next is started. Throws ContractError where
  /// every slot that would do is pinned by an open guard.
  void open(Turn const& turn, std::string_view purpose) {
    if (!order_.opens_early(turn)) {
      position_ = order_.position(turn);
    }
    bool missed = false;
    for (auto const flat : layout_->flats_of(turn.unit)) {
      if (!parameters_->gathered(flat)) {
        gather(flat, purpose);
        missed = true;
      }
      parameters_->pin(flat);
    }
    misses_ += missed ? 1 : 0;
    if (!none_) {
      prefetch(purpose);
      read_ahead();
    }
  }
  /// An update begins, after the last pass: what forward begins with is gathered again behind its own update.
  void begin_update() {
    pass_ = PassKind::training;
    position_ = -1;
    std::ranges::fill(first_used_, char{0});
    if (!none_) {
      order_.ahead(pass_, position_, order_.turns(pass_), ahead_);
      for (auto const flat : ahead_) {
        first_used_[flat] = 1;
      }
    }
  }
  void after_update(shard::FlatId flat) {
    if (first_used_[flat] != 0 && !parameters_->gathered(flat)) {
      gather(flat, "forward");
    }
  }

  [[nodiscard]] Order const& order() const noexcept { return order_; }
  [[nodiscard]] std::int64_t misses() const noexcept { return misses_; }  ///< Turns that had to wait for all of it.

 private:
  void gather(shard::FlatId flat, std::string_view purpose) {
    while (!parameters_->gather(flat, purpose)) {
      auto const evicted = order_.last_needed(pass_, position_, parameters_->slots_for(flat));
      ZEROTH_EXPECTS(evicted,
                     fmt::format("no parameter slot for unit \"{}\": all of its size hold units whose guards are "
                                 "open; end one of them first, or declare a unit whose guard is open around "
                                 "others' by UnitOptions::stays_open, which plans a slot for it",
                                 layout_->flats()[flat].name));
      parameters_->evict(*evicted);
    }
  }

  /// As gather, but takes no slot from what is used sooner: false then.
  [[nodiscard]] bool gather_ahead(shard::FlatId flat, std::string_view purpose) {
    auto const next_use = [this](shard::FlatId other) { return order_.next_use(pass_, position_, other); };
    while (!parameters_->gather(flat, purpose)) {
      auto const evicted = order_.last_needed(pass_, position_, parameters_->slots_for(flat));
      if (!evicted || next_use(*evicted) <= next_use(flat)) {
        return false;
      }
      parameters_->evict(*evicted);
    }
    return true;
  }

  void prefetch(std::string_view purpose) {
    // What was ahead of the turn before is still gathered, unless something was evicted meanwhile.
    Prefetched const now{pass_, position_, end_, parameters_->evictions()};
    if (Prefetched before = now; --before.position, before == prefetched_) {
      order_.newly_ahead(pass_, position_, end_, ahead_);
    } else {
      order_.ahead(pass_, position_, end_, ahead_);
    }
    prefetched_ = now;
    for (auto const flat : ahead_) {
      if (!parameters_->gathered(flat) && !gather_ahead(flat, purpose)) {
        prefetched_ = {};  // open guards hold slots that it would have: try again at the next turn
      }
    }
  }

  /// From disks, what the next turn will gather.
  void read_ahead() {
    if (!parameters_->reads_ahead() || position_ + 1 >= std::min(end_, order_.turns(pass_))) {
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
  bool none_;
  Parameters* parameters_;
  PassKind pass_ = PassKind::training;
  std::int64_t position_ = 0, end_ = 0;
  ById<shard::FlatId, char> first_used_;  // forward begins with it
  std::vector<shard::FlatId> ahead_, read_ahead_;
  /// For what turn everything ahead was gathered, and how many gathered units had been evicted by then.
  struct Prefetched {
    PassKind pass = PassKind::training;
    std::int64_t position = -2, end = 0, evictions = 0;
    friend bool operator==(Prefetched const&, Prefetched const&) = default;
  } prefetched_;
  std::int64_t misses_ = 0;
};

}  // namespace zeroth::stage
