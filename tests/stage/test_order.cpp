// SPDX-License-Identifier: Apache-2.0
/// Compares the declared order with a brute-force computation.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "shard/random_model.hpp"
#include "stage/order.hpp"
#include "support/catch.hpp"
#include "support/ids.hpp"

namespace zeroth::testing {
namespace {

using shard::FlatId;
using shard::Layout;
using stage::Order;
using stage::PassKind;
using stage::Phase;
using stage::PrefetchBudget;

constexpr unsigned models = 60;
constexpr std::int64_t unlimited = std::int64_t{1} << 40U;
constexpr PassKind passes[] = {PassKind::training, PassKind::evaluation};

Layout layout_of(unsigned seed) { return Layout{random_model(seed).description(), 2}; }

bool uses(Layout const& layout, UnitId unit, FlatId flat) {
  return std::ranges::find(layout.flats_of(unit), flat) != layout.flats_of(unit).end();
}

/// Units in the order of their turns, listed turn by turn.
std::vector<UnitId> turns_of(Layout const& layout, PassKind pass) {
  auto const forward = FirstIds<UnitId>{layout.unit_count()};
  std::vector<UnitId> units{forward.begin(), forward.end()};
  if (pass == PassKind::training) {
    std::ranges::reverse_copy(forward, std::back_inserter(units));
  }
  return units;
}

/// All flat units used after `position` and before `end`, by first use, without those in use.
std::vector<FlatId> upcoming(Layout const& layout, PassKind pass, std::int64_t position, std::int64_t end) {
  auto const turns = turns_of(layout, pass);
  auto const count = static_cast<std::int64_t>(turns.size());
  auto const unit_at = [&](std::int64_t at) { return turns[static_cast<std::size_t>(at % count)]; };
  std::vector<FlatId> found;
  for (auto at = position + 1; at < std::min(end, position + count); ++at) {
    for (auto const flat : layout.flats_of(unit_at(at))) {
      bool const in_use = position >= 0 && uses(layout, unit_at(position), flat);
      if (!in_use && std::ranges::find(found, flat) == found.end()) {
        found.push_back(flat);
      }
    }
  }
  return found;
}

std::int64_t count_of(Layout const& layout, std::vector<FlatId> const& flats) {
  std::int64_t count = 0;
  for (auto const flat : flats) {
    count += layout.flats()[flat].padded_count();
  }
  return count;
}

std::vector<FlatId> in_use_at(Layout const& layout, PassKind pass, std::int64_t position) {
  if (position < 0) {
    return {};
  }
  auto const flats = layout.flats_of(turns_of(layout, pass)[static_cast<std::size_t>(position)]);
  return {flats.begin(), flats.end()};
}

template <class F>
void for_every_position(F const& check) {
  for (unsigned seed = 0; seed < models; ++seed) {
    auto const layout = layout_of(seed);
    for (auto const pass : passes) {
      auto const turns = static_cast<std::int64_t>(turns_of(layout, pass).size());
      for (std::int64_t position = -1; position < turns; ++position) {
        INFO(fmt::format("model {}, {}, position {}", seed, pass == PassKind::training ? "training" : "evaluation",
                         position));
        check(layout, pass, position, turns);
      }
    }
  }
}

std::vector<FlatId> ahead(Layout const& layout, PrefetchBudget const& budget, PassKind pass, std::int64_t position,
                          std::int64_t end) {
  std::vector<FlatId> result{99_flat};  // earlier contents are cleared
  Order{layout, budget}.ahead(pass, position, end, result);
  return result;
}

}  // namespace

TEST_CASE("training runs forward, then backward, and evaluation only forward") {
  for (unsigned seed = 0; seed < models; ++seed) {
    auto const layout = layout_of(seed);
    Order const order{layout, {}};
    for (auto const pass : passes) {
      auto const turns = turns_of(layout, pass);
      REQUIRE(order.turns(pass) == static_cast<std::int64_t>(turns.size()));
      for (std::size_t at = 0; at < turns.size(); ++at) {
        auto const phase = at < layout.unit_count() ? Phase::forward : Phase::backward;
        auto const position = static_cast<std::int64_t>(at);
        CHECK(order.position({pass, phase, turns[at]}) == position);
        CHECK(order.unit_at(pass, position) == turns[at]);
        CHECK(order.unit_at(pass, position + order.turns(pass)) == turns[at]);
      }
    }
  }
}

TEST_CASE("next_use is the distance to the next turn that uses a flat unit") {
  for_every_position([](Layout const& layout, PassKind pass, std::int64_t position, std::int64_t turns) {
    Order const order{layout, {}};
    auto const units = turns_of(layout, pass);
    for (auto const flat : layout.flats().ids()) {
      std::int64_t distance = 1;
      while (!uses(layout, units[static_cast<std::size_t>((position + distance) % turns)], flat)) {
        ++distance;
      }
      CHECK(order.next_use(pass, position, flat) == distance);
      CHECK(order.next_use(pass, position, flat) <= turns);
    }
  });
}

TEST_CASE("the unit whose next use is farthest is evicted, unless it is pinned") {
  Model model;
  for (int u = 0; u < 4; ++u) {
    static_cast<void>(model.param(model.unit(fmt::format("u{}", u)), fmt::format("w{}", u), {256}, Constant{0}));
  }
  Layout const layout{model.description(), 1};
  Order const order{layout, {}};
  std::vector<shard::Slot> slots(4);
  auto const last_needed = [&](PassKind pass, std::int64_t position) {
    return order.last_needed(pass, position, slots);
  };
  CHECK_FALSE(last_needed(PassKind::training, 0));  // nothing is bound
  for (std::size_t i = 0; i < 3; ++i) {
    slots[i].flat = id_at<FlatId>(2 - i);
  }
  CHECK(last_needed(PassKind::training, 3) == 0_flat);    // backward begins: 2, 1, 0
  CHECK(last_needed(PassKind::training, 7) == 2_flat);    // the next pass begins: 0, 1, 2
  CHECK(last_needed(PassKind::evaluation, 1) == 1_flat);  // 2 is next, then 0 of the next pass
  slots[1].pins = 1;
  CHECK(last_needed(PassKind::evaluation, 1) == 0_flat);
  slots[0].pins = 2;
  slots[2].pins = 1;
  CHECK_FALSE(last_needed(PassKind::training, 0));
}

TEST_CASE("there are never more gradient slots than units, however many are requested") {
  Model model;
  std::vector<Unit> units;
  for (int u = 0; u < 4; ++u) {
    units.push_back(model.unit(fmt::format("u{}", u)));
    static_cast<void>(model.param(units.back(), fmt::format("w{}", u), {256}, Constant{0}));
  }
  auto const tied = model.param(units[0], "tied", {256}, Constant{0});
  model.tie(units[3], tied);
  Layout const layout{model.description(), 1};
  Order const order{layout, {}};
  CHECK(order.gradient_slots(1).total_slots() == 2);  // the unit's slot, and the one that its tie keeps open
  CHECK(order.gradient_slots(2).total_slots() == 3);
  CHECK(order.gradient_slots(4).total_slots() == 5);
  CHECK(order.gradient_slots(std::numeric_limits<int>::max()).total_slots() == 5);
}

TEST_CASE("a plan costs time by the number of units, however far ahead they are gathered") {
  for (int const count : {500, 2000}) {
    Model model;
    std::vector<Unit> units;
    for (int u = 0; u < count; ++u) {
      units.push_back(model.unit(fmt::format("u{}", u)));
      static_cast<void>(model.param(units.back(), fmt::format("w{}", u), {1 + u % 300}, Constant{0}));
    }
    auto const tied = model.param(units.front(), "tied", {100}, Constant{0});
    model.tie(units.back(), tied);
    Layout const layout{model.description(), 2};
    // Prefetches the whole model, a part of it, and as much as the live limit allows.
    for (auto const& budget : {PrefetchBudget{unlimited, unlimited}, PrefetchBudget{100 * 256, unlimited},
                               PrefetchBudget{unlimited, 200 * 256}}) {
      Order order{layout, budget};
      auto const slots = order.parameter_slots();
      static_cast<void>(order.shortage());
      INFO(fmt::format("{} units, prefetch {}, live {}", count, budget.prefetch_count, budget.max_live_count));
      CHECK(slots.total_slots() > 50);
      CHECK(order.looked_at() < 50 * count);
    }
  }
}

TEST_CASE("without a budget nothing is prefetched, and with a budget of one element the next unit is") {
  for_every_position([](Layout const& layout, PassKind pass, std::int64_t position, std::int64_t turns) {
    auto const end = position + turns;
    CHECK(ahead(layout, {0, unlimited}, pass, position, end).empty());
    auto const one = ahead(layout, {1, unlimited}, pass, position, end);
    auto const next = upcoming(layout, pass, position, end);
    CHECK(one.empty() == next.empty());
    if (!next.empty()) {
      // Everything that the nearest unit with something new needs, and nothing of the unit after it.
      Order const order{layout, {}};
      auto const when = order.next_use(pass, position, next.front());
      for (auto const flat : next) {
        bool const needed = order.next_use(pass, position, flat) == when;
        CHECK((std::ranges::find(one, flat) != one.end()) == needed);
      }
    }
  });
}

TEST_CASE("units are prefetched, nearest first, while they have fewer elements than the budget") {
  for (std::int64_t const budget : {std::int64_t{300}, std::int64_t{2000}, std::int64_t{9000}, unlimited}) {
    for_every_position([&](Layout const& layout, PassKind pass, std::int64_t position, std::int64_t turns) {
      Order const order{layout, {}};
      auto const next = upcoming(layout, pass, position, position + turns);
      auto const result = ahead(layout, {budget, unlimited}, pass, position, position + turns);
      REQUIRE(result.size() <= next.size());
      CHECK(std::equal(result.begin(), result.end(), next.begin()));
      CHECK((result.size() == next.size() || count_of(layout, result) >= budget));
      if (!result.empty()) {  // without the last unit, the budget was not used up
        auto before = result;
        auto const last = order.next_use(pass, position, result.back());
        std::erase_if(before, [&](FlatId flat) { return order.next_use(pass, position, flat) == last; });
        CHECK(count_of(layout, before) < budget);
      }
    });
  }
}

TEST_CASE("prefetch does not exceed the live budget, and stops at the first unit that would") {
  for (std::int64_t const live : {std::int64_t{1}, std::int64_t{1000}, std::int64_t{6000}, std::int64_t{30'000}}) {
    for_every_position([&](Layout const& layout, PassKind pass, std::int64_t position, std::int64_t turns) {
      auto const used = count_of(layout, in_use_at(layout, pass, position));
      auto const next = upcoming(layout, pass, position, position + turns);
      auto const result = ahead(layout, {unlimited, live}, pass, position, position + turns);
      REQUIRE(result.size() <= next.size());
      CHECK(std::equal(result.begin(), result.end(), next.begin()));
      CHECK((result.empty() || used + count_of(layout, result) <= live));
      if (result.size() < next.size()) {
        auto more = result;  // a unit is gathered as a whole or not at all
        Order const order{layout, {}};
        auto const when = order.next_use(pass, position, next[result.size()]);
        std::ranges::copy_if(next, std::back_inserter(more),
                             [&](FlatId flat) { return order.next_use(pass, position, flat) == when; });
        CHECK(used + count_of(layout, more) > live);
      }
    });
  }
}

TEST_CASE("turns that are not prefetched are counted, with the smallest budget that prefetches all") {
  for (unsigned seed = 0; seed < models; ++seed) {
    auto const layout = layout_of(seed);
    CHECK(Order{layout, {0, 1}}.shortage().turns == 0);
    auto const turns = static_cast<std::int64_t>(turns_of(layout, PassKind::training).size());
    auto const late_with = [&](std::int64_t live) {
      std::int64_t late = 0;
      for (std::int64_t position = -1; position + 1 < turns; ++position) {
        bool const new_there = !upcoming(layout, PassKind::training, position, position + 2).empty();
        late += new_there && ahead(layout, {1, live}, PassKind::training, position, position + 2).empty() ? 1 : 0;
      }
      return late;
    };
    for (std::int64_t const live : {std::int64_t{1}, std::int64_t{1000}, std::int64_t{6000}, unlimited}) {
      INFO(fmt::format("model {}, {} live", seed, live));
      auto const shortage = Order{layout, {1, live}}.shortage();
      CHECK(shortage.turns == late_with(live));
      if (shortage.turns > 0) {
        CHECK(late_with(shortage.needed_count) == 0);
        CHECK(late_with(shortage.needed_count - 1) > 0);
      }
    }
  }
}

TEST_CASE("a turn prefetches the units that the turn before neither used nor prefetched") {
  for (std::int64_t const budget : {std::int64_t{300}, std::int64_t{2000}, unlimited}) {
    for (std::int64_t const live : {std::int64_t{6000}, unlimited}) {
      for_every_position([&](Layout const& layout, PassKind pass, std::int64_t position, std::int64_t turns) {
        if (position < 0) {
          return;
        }
        for (auto const end : {position + 1, turns, position + turns}) {
          auto const before = ahead(layout, {budget, live}, pass, position - 1, end);
          auto const used = in_use_at(layout, pass, position - 1);
          auto const now = ahead(layout, {budget, live}, pass, position, end);
          std::vector<FlatId> newly{99_flat};
          Order{layout, {budget, live}}.newly_ahead(pass, position, end, newly);
          auto const has = [](auto const& list, FlatId flat) {
            return std::ranges::find(list, flat) != std::ranges::end(list);
          };
          CHECK(std::ranges::all_of(newly, [&](FlatId flat) { return has(now, flat); }));
          CHECK(std::ranges::all_of(
              now, [&](FlatId flat) { return has(newly, flat) || has(before, flat) || has(used, flat); }));
        }
      });
    }
  }
}

TEST_CASE("nothing is prefetched after the last turn") {
  for_every_position([](Layout const& layout, PassKind pass, std::int64_t position, std::int64_t turns) {
    for (std::int64_t end = position; end <= turns; ++end) {
      CHECK(ahead(layout, {unlimited, unlimited}, pass, position, end) == upcoming(layout, pass, position, end));
    }
  });
}

}  // namespace zeroth::testing
