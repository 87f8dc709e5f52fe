// SPDX-License-Identifier: Apache-2.0
/// Preallocated buffers that hold one unit's gathered parameters or full gradients for a while.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shard/layout.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::shard {

/// Slots of one capacity. Units of similar size share a class, so that a small unit does not hold a large slot.
struct SlotClass {
  std::int64_t capacity_count = 0;  ///< Elements: of the class's largest unit.
  std::vector<FlatId> flats;        ///< Members.
  int slots = 0;
};

/// How many slots of which capacity.
struct SlotCounts {
  std::vector<SlotClass> classes;
  ById<FlatId, int> class_of;  ///< -1 for one that needs no slot.
  [[nodiscard]] std::int64_t total_count() const noexcept;
  [[nodiscard]] int total_slots() const noexcept;
};

/// Groups flat units by size, largest first: a class holds units of more than half of its capacity. A count of 0: the
/// unit needs no slot. All classes have no slots yet.
[[nodiscard]] SlotCounts classify(ById<FlatId, std::int64_t> const& counts);

/// A buffer and the two points in time that guard it.
struct Slot {
  std::byte* data = nullptr;
  std::unique_ptr<device::Event> ready;  ///< The contents may be used.
  std::unique_ptr<device::Event> free;   ///< Nobody uses the contents any more.
  std::optional<FlatId> flat{};          ///< What it is bound to.
  int pins = 0;                          ///< Uses that are open: not to be taken away.
  Slot* next_free = nullptr;             ///< Of the slots of its class that are free, in the order they became so.
};

/// What a unit that is held whole lives in: bound to it forever.
[[nodiscard]] Slot slot_of_its_own(device::Device& device, std::byte* data, FlatId flat);

/// Binds flat units to slots. Which slot is chosen depends on what was enqueued, never on what has completed.
class SlotPool {
 public:
  /// `memory` holds total_count() elements of `element_bytes`, class after class.
  SlotPool(device::Device& device, SlotCounts const& counts, std::byte* memory, std::int64_t element_bytes);
  /// Likewise without memory and events: for who only counts.
  explicit SlotPool(SlotCounts const& counts);

  /// The slot that `flat` is bound to, or null.
  [[nodiscard]] Slot* find(FlatId flat) noexcept;
  /// Binds `flat` to the slot of its class that was given up first; null if all are bound.
  [[nodiscard]] Slot* bind(FlatId flat);
  /// Would bind() find a slot for `flat`?
  [[nodiscard]] bool has_free(FlatId flat) const noexcept;
  void unbind(Slot& slot) noexcept;
  [[nodiscard]] std::vector<Slot>& slots() noexcept { return slots_; }
  /// The slots of `flat`'s class.
  [[nodiscard]] std::span<Slot const> slots_for(FlatId flat) const noexcept;
  [[nodiscard]] int bound() const noexcept { return bound_; }
  [[nodiscard]] std::int64_t unbound() const noexcept { return unbound_; }  ///< How often a slot was given up.
  [[nodiscard]] int high_water() const noexcept { return high_water_; }
  /// Bytes of a slot of `flat`'s class.
  [[nodiscard]] std::int64_t slot_bytes(FlatId flat) const noexcept;

 private:
  struct Members {
    std::size_t first, last;
    std::int64_t bytes;
    Slot *first_free, *last_free;
    void append(Slot& slot) noexcept;
    [[nodiscard]] Slot* take_first() noexcept;
  };
  void add_class(SlotClass const& slot_class, std::int64_t bytes, std::byte* memory, device::Device* device);
  [[nodiscard]] Members& members(FlatId flat) noexcept;
  Slot* take(Slot& slot, FlatId flat) noexcept;

  std::vector<Slot> slots_;
  std::vector<Members> classes_;
  ById<FlatId, int> class_of_;
  ById<FlatId, Slot*> by_flat_;
  int bound_ = 0, high_water_ = 0;
  std::int64_t unbound_ = 0;
};

}  // namespace zeroth::shard
