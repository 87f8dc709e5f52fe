// SPDX-License-Identifier: Apache-2.0
/// Classes of slots, and which slot a unit gets.
#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "shard/slots.hpp"
#include "support/catch.hpp"
#include "support/ids.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::testing {
namespace {

using shard::classify;
using shard::Slot;
using shard::SlotCounts;
using shard::SlotPool;

/// A pool with its own memory.
struct Pool {
  SlotCounts counts;
  std::unique_ptr<device::Device> device = device::make_cpu_device();
  std::vector<std::byte> memory;
  SlotPool slots;

  Pool(ById<shard::FlatId, std::int64_t> const& unit_counts, std::vector<int> const& slots_by_class,
       std::int64_t element_bytes = 4)
      : counts{with_slots(unit_counts, slots_by_class)},
        memory(static_cast<std::size_t>(counts.total_count() * element_bytes)),
        slots{*device, counts, memory.data(), element_bytes} {}

  static SlotCounts with_slots(ById<shard::FlatId, std::int64_t> const& unit_counts,
                               std::vector<int> const& slots_by_class) {
    auto result = classify(unit_counts);
    REQUIRE(result.classes.size() == slots_by_class.size());
    for (std::size_t c = 0; c < slots_by_class.size(); ++c) {
      result.classes[c].slots = slots_by_class[c];
    }
    return result;
  }
};

}  // namespace

TEST_CASE("classes hold units of more than half of their capacity") {
  std::mt19937 random{7};
  for (int trial = 0; trial < 200; ++trial) {
    ById<shard::FlatId, std::int64_t> counts(random() % 12);
    for (auto& count : counts) {
      count = random() % 5 == 0 ? 0 : static_cast<std::int64_t>(random() % 4096 + 1);
    }
    auto const result = classify(counts);
    REQUIRE(result.class_of.size() == counts.size());
    std::multiset<shard::FlatId> members;
    std::int64_t smaller_than = std::int64_t{1} << 40U;
    for (std::size_t c = 0; c < result.classes.size(); ++c) {
      auto const& slot_class = result.classes[c];
      CHECK(slot_class.slots == 0);
      CHECK(2 * slot_class.capacity_count <= smaller_than);
      smaller_than = slot_class.capacity_count;
      std::int64_t largest = 0;
      for (auto const flat : slot_class.flats) {
        members.insert(flat);
        largest = std::max(largest, counts[flat]);
        CHECK(2 * counts[flat] > slot_class.capacity_count);
        CHECK(result.class_of[flat] == static_cast<int>(c));
      }
      CHECK(largest == slot_class.capacity_count);
    }
    for (auto const flat : counts.ids()) {
      CHECK(members.count(flat) == (counts[flat] > 0 ? 1U : 0U));
      CHECK((result.class_of[flat] < 0) == (counts[flat] == 0));
    }
  }
}

TEST_CASE("units in fp32 have classes of their own, and twice the bytes of 16-bit elements") {
  auto counts = classify({1000, 600, 100, 900, 0}, {0, 1, 1, 0, 1});
  REQUIRE(counts.classes.size() == 3);
  CHECK_FALSE(counts.classes[0].fp32);
  CHECK(counts.classes[0].flats == std::vector{0_flat, 3_flat});
  CHECK(counts.classes[1].fp32);
  CHECK(counts.classes[1].flats == std::vector{1_flat});
  CHECK(counts.classes[2].fp32);
  CHECK(counts.class_of[4_flat] == -1);
  for (auto& slot_class : counts.classes) {
    slot_class.slots = 1;
  }
  CHECK(counts.total_bytes(2) == 2 * 1000 + 4 * 600 + 4 * 100);
  auto const device = device::make_cpu_device();
  std::vector<std::byte> memory(static_cast<std::size_t>(counts.total_bytes(2)));
  SlotPool pool{*device, counts, memory.data(), 2};
  CHECK(pool.slot_bytes(3_flat) == 2000);
  CHECK(pool.slot_bytes(2_flat) == 400);
  CHECK(pool.bind(2_flat)->data == memory.data() + 2000 + 2400);
}

TEST_CASE("totals count every slot with its capacity") {
  auto const counts = Pool::with_slots({1000, 600, 100, 0, 90}, {3, 2});
  CHECK(counts.total_slots() == 5);
  CHECK(counts.total_count() == 3 * 1000 + 2 * 100);
  CHECK(classify({}).total_count() == 0);
}

TEST_CASE("slots lie end to end, class after class") {
  Pool pool{{1000, 600, 100, 0, 90}, {3, 2}, 2};
  auto& slots = pool.slots.slots();
  REQUIRE(slots.size() == 5);
  auto const* next = pool.memory.data();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    CHECK(slots[i].data == next);
    next += i < 3 ? 2000 : 200;
  }
  CHECK(next == pool.memory.data() + pool.memory.size());
  CHECK(pool.slots.slot_bytes(1_flat) == 2000);
  CHECK(pool.slots.slot_bytes(4_flat) == 200);
}

TEST_CASE("a unit is bound until it is unbound, to the slot that was given up first") {
  Pool pool{{100, 100, 100, 100}, {2}};
  auto& slots = pool.slots;
  CHECK(slots.find(0_flat) == nullptr);
  auto* const a = slots.bind(0_flat);
  auto* const b = slots.bind(1_flat);
  REQUIRE(a != nullptr);
  REQUIRE(b != nullptr);
  CHECK(a != b);
  CHECK(slots.find(0_flat) == a);
  CHECK(a->flat == 0_flat);
  CHECK(slots.bind(2_flat) == nullptr);
  CHECK(slots.bound() == 2);
  slots.unbind(*b);
  slots.unbind(*a);
  CHECK(slots.find(0_flat) == nullptr);
  CHECK(slots.bound() == 0);
  CHECK(slots.bind(2_flat) == b);
  CHECK(slots.bind(3_flat) == a);
  CHECK(slots.high_water() == 2);
}

TEST_CASE("units of one class do not take slots of another") {
  Pool pool{{1000, 100, 90}, {1, 1}};
  REQUIRE(pool.slots.bind(1_flat) != nullptr);
  CHECK(pool.slots.bind(2_flat) == nullptr);
  CHECK(pool.slots.bind(0_flat) != nullptr);
  CHECK(pool.slots.find(1_flat) != nullptr);
}

TEST_CASE("the slots for a unit are those of its class, bound or not") {
  Pool pool{{1000, 600, 100, 0, 90}, {3, 2}};
  auto& slots = pool.slots;
  REQUIRE(slots.bind(4_flat) != nullptr);
  for (auto const flat : {0_flat, 1_flat}) {
    auto const found = slots.slots_for(flat);
    CHECK(found.data() == slots.slots().data());
    CHECK(found.size() == 3);
  }
  for (auto const flat : {2_flat, 4_flat}) {
    auto const found = slots.slots_for(flat);
    CHECK(found.data() == slots.slots().data() + 3);
    CHECK(found.size() == 2);
  }
}

TEST_CASE("the same calls give the same slots, whatever has completed") {
  auto const run = [] {
    Pool pool{{100, 100, 100, 100, 100, 100}, {3}};
    std::mt19937 random{3};
    std::vector<std::ptrdiff_t> chosen;
    for (int i = 0; i < 300; ++i) {
      auto const flat = id_at<shard::FlatId>(random() % 6);
      if (auto* const slot = pool.slots.find(flat)) {
        if (random() % 2 == 0) {
          pool.slots.unbind(*slot);
        }
        continue;
      }
      auto const* const slot = pool.slots.bind(flat);
      if (slot == nullptr) {
        continue;
      }
      chosen.push_back(slot - pool.slots.slots().data());
      std::set<shard::FlatId> bound;
      int count = 0;
      for (auto const& each : pool.slots.slots()) {
        if (each.flat) {
          bound.insert(*each.flat);
          ++count;
        }
      }
      CHECK(static_cast<int>(bound.size()) == count);
      CHECK(pool.slots.bound() == count);
    }
    return chosen;
  };
  CHECK(run() == run());
}

}  // namespace zeroth::testing
