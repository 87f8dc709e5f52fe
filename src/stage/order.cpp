#include "zeroth/stage/order.hpp"

#include <algorithm>
#include <utility>

namespace zeroth::stage {

using shard::SlotCounts;

Order::Order(shard::Layout const& layout, PrefetchBudget const& budget)
    : layout_{&layout}, budget_{budget}, seen_(layout.flats().size()) {
  if (budget.prefetch_count <= 0) {
    return;
  }
  for (auto const pass : {PassKind::training, PassKind::evaluation}) {
    for (std::int64_t position = -1; position < turns(pass); ++position) {
      windows_[static_cast<std::size_t>(pass)].push_back(measure_window(pass, position));
    }
  }
}

std::int64_t Order::turns(PassKind pass) const noexcept {
  return pass == PassKind::training ? 2 * std::int64_t{layout_->unit_count()} : std::int64_t{layout_->unit_count()};
}

std::int64_t Order::position(Turn const& turn) const noexcept {
  return turn.phase == Phase::forward ? std::int64_t{turn.unit} : turns(turn.pass) - 1 - std::int64_t{turn.unit};
}

std::uint32_t Order::unit_at(PassKind pass, std::int64_t position) const noexcept {
  auto const in_pass = position % turns(pass);
  auto const units = std::int64_t{layout_->unit_count()};
  return static_cast<std::uint32_t>(in_pass < units ? in_pass : 2 * units - 1 - in_pass);
}

std::int64_t Order::next_use(PassKind pass, std::int64_t position, std::uint32_t flat) const noexcept {
  auto const cycle = turns(pass);
  auto nearest = cycle;
  auto const consider = [&](std::int64_t use) {
    auto const distance = (use - position - 1 + 2 * cycle) % cycle + 1;
    nearest = std::min(nearest, distance);
  };
  for (auto const unit : layout_->flats()[flat].users) {
    consider(std::int64_t{unit});
    if (pass == PassKind::training) {
      consider(cycle - 1 - std::int64_t{unit});
    }
  }
  return nearest;
}

std::int64_t Order::begin_search(PassKind pass, std::int64_t position) {
  ++search_;
  std::int64_t in_use = 0;
  if (position >= 0) {
    for (auto const flat : layout_->flats_of(unit_at(pass, position))) {
      in_use += is_new(flat) ? layout_->flats()[flat].padded_count() : 0;
    }
  }
  return in_use;
}

bool Order::is_new(std::uint32_t flat) noexcept { return std::exchange(seen_[flat], search_) != search_; }

std::int64_t Order::measure_window(PassKind pass, std::int64_t position) {
  auto const in_use = begin_search(pass, position);
  std::int64_t live = in_use;
  // A pass has every unit within turns(pass); looking further finds nothing new.
  auto const last = position + turns(pass);
  auto next = position + 1;
  for (; next < last && live - in_use < budget_.prefetch_count; ++next) {
    for (auto const flat : layout_->flats_of(unit_at(pass, next))) {
      live += is_new(flat) ? layout_->flats()[flat].padded_count() : 0;
    }
    if (live > budget_.max_live_count) {
      break;
    }
  }
  return next;
}

std::int64_t Order::window_end(PassKind pass, std::int64_t position) const noexcept {
  auto const& windows = windows_[static_cast<std::size_t>(pass)];
  return windows.empty() ? position + 1 : windows[static_cast<std::size_t>(position + 1)];
}

void Order::find(PassKind pass, std::int64_t begin, std::int64_t end, std::vector<std::uint32_t>& found) {
  for (auto next = begin; next < end; ++next) {
    for (auto const flat : layout_->flats_of(unit_at(pass, next))) {
      if (is_new(flat)) {
        found.push_back(flat);
      }
    }
  }
}

void Order::ahead(PassKind pass, std::int64_t position, std::int64_t end, std::vector<std::uint32_t>& ahead) {
  ahead.clear();
  begin_search(pass, position);
  find(pass, position + 1, std::min(end, window_end(pass, position)), ahead);
}

void Order::newly_ahead(PassKind pass, std::int64_t position, std::int64_t end, std::vector<std::uint32_t>& ahead) {
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
      live += is_new(flat) ? layout_->flats()[flat].padded_count() : 0;
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
  std::vector<std::int64_t> counts;
  for (auto const& flat : flats) {
    counts.push_back(flat.padded_count());
  }
  auto result = shard::classify(counts);
  std::vector<int> needed(result.classes.size());
  std::vector<std::uint32_t> next;
  auto const need = [&](std::uint32_t flat) {
    if (result.class_of[flat] >= 0) {
      ++needed[static_cast<std::size_t>(result.class_of[flat])];
    }
  };
  for (auto const pass : {PassKind::training, PassKind::evaluation}) {
    for (std::int64_t position = -1; position < turns(pass); ++position) {
      std::ranges::fill(needed, 0);
      ahead(pass, position, position + turns(pass), next);
      std::ranges::for_each(next, need);
      if (position >= 0) {
        std::ranges::for_each(layout_->flats_of(unit_at(pass, position)), need);
      }
      for (std::size_t c = 0; c < needed.size(); ++c) {
        result.classes[c].slots = std::max(result.classes[c].slots, needed[c]);
      }
    }
  }
  return result;
}

SlotCounts Order::gradient_slots(int units_at_once) const {
  auto const& flats = layout_->flats();
  std::vector<std::int64_t> counts;
  for (auto const& flat : flats) {
    counts.push_back(flat.trainable.padded_count);
  }
  auto result = shard::classify(counts);
  // A tied parameter's gradient is open from backward of its last user to backward of its first.
  for (auto& slot_class : result.classes) {
    int most = 0;
    for (std::uint32_t unit = 0; unit < layout_->unit_count(); ++unit) {
      auto const open = [&](std::uint32_t flat) {
        return flats[flat].users.front() <= unit && unit <= flats[flat].users.back();
      };
      most = std::max(most, static_cast<int>(std::ranges::count_if(slot_class.flats, open)));
    }
    slot_class.slots = std::min(static_cast<int>(slot_class.flats.size()), most + units_at_once - 1);
  }
  return result;
}

}  // namespace zeroth::stage
