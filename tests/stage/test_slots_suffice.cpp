// SPDX-License-Identifier: Apache-2.0
/// The planned number of slots is enough for the declared order, and no more than needed.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "shard/random_model.hpp"
#include "shard/slots.hpp"
#include "stage/buckets.hpp"
#include "stage/order.hpp"
#include "support/catch.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::testing {
namespace {

using shard::Layout;
using shard::SlotCounts;
using stage::Order;
using stage::PassKind;
using stage::PrefetchBudget;

constexpr std::int64_t unlimited = std::int64_t{1} << 40U;

/// Slots without memory: the test needs only their bookkeeping.
struct Slots {
  std::unique_ptr<device::Device> device = device::make_cpu_device();
  shard::SlotPool pool;
  explicit Slots(SlotCounts const& counts) : pool{*device, counts, nullptr, 0} {}

  /// Binds like the schedule. Returns false if no slot is free.
  bool bind(shard::FlatId flat, Order const& order, PassKind pass, std::int64_t position) {
    while (pool.bind(flat) == nullptr) {
      auto const evicted = order.last_needed(pass, position, pool.slots_for(flat));
      if (!evicted) {
        return false;
      }
      pool.unbind(*pool.find(*evicted));
    }
    return true;
  }
  void unbind(stage::Buckets::Bucket bucket) {
    for (auto const flat : bucket) {
      pool.unbind(*pool.find(flat));
    }
  }
};

/// Takes the turns of several passes, and counts those with a missing unit. Returns -1 if no slot was free.
int misses_in(Layout const& layout, Order order, PassKind pass) {
  Slots slots{order.parameter_slots()};
  auto const turns = order.turns(pass);
  std::vector<shard::FlatId> ahead;
  int misses = 0;
  bool first = true;
  for (std::int64_t turn = 0; turn < 3 * turns; ++turn) {
    auto const position = turn % turns;
    auto const flats = layout.flats_of(order.unit_at(pass, position));
    bool missing = false;
    for (auto const flat : flats) {
      if (slots.pool.find(flat) == nullptr) {
        missing = true;
        if (!slots.bind(flat, order, pass, position)) {
          return -1;
        }
      }
      ++slots.pool.find(flat)->pins;
    }
    misses += missing && !first ? 1 : 0;
    first = first && flats.empty();
    order.ahead(pass, position, position + turns, ahead);
    for (auto const flat : ahead) {
      if (slots.pool.find(flat) == nullptr && !slots.bind(flat, order, pass, position)) {
        return -1;
      }
    }
    for (auto const flat : flats) {
      --slots.pool.find(flat)->pins;
    }
  }
  return misses;
}

/// Runs backward of one micro-step in declared order. Returns false if a unit found no slot although everything
/// complete was sent.
bool backward_finds_slots(Layout const& layout, int gradient_slots, std::int64_t bucket_count) {
  Slots slots{Order{layout, {}}.gradient_slots(gradient_slots)};
  stage::Buckets buckets{layout, bucket_count, std::max(1, gradient_slots / 2)};
  ById<shard::FlatId, int> users_left;
  for (auto const& flat : layout.flats()) {
    users_left.push_back(static_cast<int>(flat.users.size()));
  }
  for (auto u = layout.unit_count(); u-- > 0;) {
    UnitId const unit{u};
    auto const trainable = [&](shard::FlatId flat) { return layout.flats()[flat].trainable.padded_count > 0; };
    for (auto const flat : layout.flats_of(unit)) {
      if (!trainable(flat) || slots.pool.find(flat) != nullptr || slots.pool.bind(flat) != nullptr) {
        continue;
      }
      slots.unbind(buckets.flush());
      if (slots.pool.bind(flat) == nullptr) {
        return false;
      }
    }
    for (auto const flat : layout.flats_of(unit)) {
      if (trainable(flat) && --users_left[flat] == 0) {
        buckets.complete(flat);
        for (auto bucket = buckets.next_full(); !bucket.empty(); bucket = buckets.next_full()) {
          slots.unbind(bucket);
        }
      }
    }
  }
  slots.unbind(buckets.finish());
  return slots.pool.bound() == 0;
}

}  // namespace

TEST_CASE("in declared order every unit finds a slot, and with prefetch it is there before its turn") {
  for (unsigned seed = 0; seed < 80; ++seed) {
    auto const model = random_model(seed);
    Layout const layout{model.description(), 2};
    for (auto const pass : {PassKind::training, PassKind::evaluation}) {
      for (std::int64_t const prefetch : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5000}, unlimited}) {
        for (std::int64_t const live : {std::int64_t{1}, std::int64_t{9000}, unlimited}) {
          INFO(fmt::format("model {}, {}, prefetch {}, live {}", seed,
                           pass == PassKind::training ? "training" : "evaluation", prefetch, live));
          auto const misses = misses_in(layout, Order{layout, {prefetch, live}}, pass);
          CHECK(misses >= 0);
          if (prefetch > 0 && live == unlimited) {
            CHECK(misses == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("without prefetch, parameter slots are those of the unit that needs most") {
  for (unsigned seed = 0; seed < 80; ++seed) {
    auto const model = random_model(seed);
    Layout const layout{model.description(), 2};
    auto const slots = Order{layout, {0, unlimited}}.parameter_slots();
    for (std::size_t c = 0; c < slots.classes.size(); ++c) {
      std::int64_t most = 0;
      for (auto const unit : FirstIds<UnitId>{layout.unit_count()}) {
        most = std::max(most, std::ranges::count_if(layout.flats_of(unit), [&](shard::FlatId flat) {
                          return slots.class_of[flat] == static_cast<int>(c);
                        }));
      }
      CHECK(slots.classes[c].slots == most);
    }
  }
}

TEST_CASE("prefetch without bounds has a slot for every unit") {
  for (unsigned seed = 0; seed < 80; ++seed) {
    auto const model = random_model(seed);
    Layout const layout{model.description(), 2};
    auto const slots = Order{layout, {unlimited, unlimited}}.parameter_slots();
    for (auto const& slot_class : slots.classes) {
      CHECK(slot_class.slots == static_cast<int>(slot_class.flats.size()));
    }
  }
}

TEST_CASE("equal units need one slot without prefetch, and one more for each prefetched unit") {
  Model model;
  for (int u = 0; u < 6; ++u) {
    auto const unit = model.unit("u" + std::to_string(u));
    static_cast<void>(model.param(unit, "w" + std::to_string(u), {256}, Constant{0}));
  }
  Layout const layout{model.description(), 2};
  auto const slots = [&](std::int64_t prefetch, std::int64_t live = unlimited) {
    return Order{layout, {prefetch, live}}.parameter_slots().total_slots();
  };
  CHECK(slots(0) == 1);
  CHECK(slots(1) == 2);
  CHECK(slots(256) == 2);
  CHECK(slots(257) == 3);
  CHECK(slots(unlimited, 256) == 1);
  CHECK(slots(unlimited, 512) == 2);
  CHECK(slots(unlimited, 1023) == 3);
  CHECK(slots(unlimited) == 6);
  for (int k = 1; k <= 8; ++k) {
    CHECK(Order(layout, {}).gradient_slots(k).total_slots() == std::min(k, 6));
  }
}

TEST_CASE("a tied parameter holds its gradient slot from its last user to its first") {
  Model model;
  std::vector<Unit> units;
  for (int u = 0; u < 4; ++u) {
    units.push_back(model.unit("u" + std::to_string(u)));
  }
  auto const tied = model.param(units[0], "tied", {256}, Constant{0});
  for (std::size_t u = 0; u < 4; ++u) {
    static_cast<void>(model.param(units[u], "w" + std::to_string(u), {256}, Constant{0}));
  }
  model.tie(units[3], tied);
  Layout const layout{model.description(), 2};
  CHECK(Order(layout, {}).gradient_slots(1).total_slots() == 2);
  CHECK(Order(layout, {}).gradient_slots(2).total_slots() == 3);
}

TEST_CASE("backward in declared order always finds a gradient slot, or frees one by sending complete units") {
  for (unsigned seed = 0; seed < 120; ++seed) {
    auto const model = random_model(seed);
    Layout const layout{model.description(), 2};
    for (int gradient_slots = 1; gradient_slots <= 6; ++gradient_slots) {
      for (std::int64_t const bucket : {std::int64_t{1}, std::int64_t{3000}, unlimited}) {
        INFO(fmt::format("model {}, {} gradient slots, buckets of {}", seed, gradient_slots, bucket));
        CHECK(backward_finds_slots(layout, gradient_slots, bucket));
      }
    }
  }
}

}  // namespace zeroth::testing
