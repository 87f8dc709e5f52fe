// SPDX-License-Identifier: Apache-2.0
/// Preallocated buffers that temporarily hold one unit's gathered parameters or full gradients.
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
  std::int64_t capacity_count = 0;  ///< Elements of the class's largest unit.
  std::vector<FlatId> flats;        ///< Members.
  int slots = 0;
  bool fp32 = false;  ///< Whether all members are fp32: see FlatUnit::fp32.
};

/// The number of slots of each capacity.
struct SlotCounts {
  std::vector<SlotClass> classes;
  ById<FlatId, int> class_of;  ///< -1 if the unit needs no slot.
  [[nodiscard]] std::int64_t total_count() const noexcept;
  /// Bytes of all slots, if elements have `element_bytes` in all classes but those of fp32.
  [[nodiscard]] std::int64_t total_bytes(std::int64_t element_bytes) const noexcept;
  [[nodiscard]] int total_slots() const noexcept;
};

/// Groups flat units by size, largest first: a class holds units of more than half of its capacity. A count of 0 means
/// that the unit needs no slot. Units that are fp32 in a model of 16 bits have separate classes, after the others. The
/// returned classes have no slots yet.
[[nodiscard]] SlotCounts classify(ById<FlatId, std::int64_t> const& counts, ById<FlatId, char> const& fp32 = {});

/// A buffer and the two events that guard it.
struct Slot {
  std::byte* data = nullptr;
  std::unique_ptr<device::Event> ready;  ///< The contents may be used.
  std::unique_ptr<device::Event> free;   ///< The contents are no longer in use.
  std::optional<FlatId> flat{};          ///< The flat unit that it is bound to.
  int pins = 0;                          ///< Open uses; the slot must not be evicted.
  Slot* next_free = nullptr;             ///< The next free slot of its class, in the order in which they became free.
};

/// A slot for a unit that is held whole: bound to it forever.
[[nodiscard]] Slot slot_of_its_own(device::Device& device, std::byte* data, FlatId flat);

/// Binds flat units to slots. The choice of a slot depends on what was enqueued, never on what has completed.
class SlotPool {
 public:
  /// `memory` holds SlotCounts::total_bytes(element_bytes), class after class.
  SlotPool(device::Device& device, SlotCounts const& counts, std::byte* memory, std::int64_t element_bytes);
  /// A pool without memory and events, for dry runs that only count.
  explicit SlotPool(SlotCounts const& counts);

  /// The slot that `flat` is bound to, or null.
  [[nodiscard]] Slot* find(FlatId flat) noexcept;
  /// Binds `flat` to the slot of its class that became free first; null if all are bound.
  [[nodiscard]] Slot* bind(FlatId flat);
  /// Whether bind() would find a slot for `flat`.
  [[nodiscard]] bool has_free(FlatId flat) const noexcept;
  void unbind(Slot& slot) noexcept;
  /// Makes free slots be taken in the order of their addresses from now on, whatever happened before.
  void restore_order() noexcept;
  [[nodiscard]] std::vector<Slot>& slots() noexcept { return slots_; }
  /// The slots of `flat`'s class.
  [[nodiscard]] std::span<Slot const> slots_for(FlatId flat) const noexcept;
  [[nodiscard]] int bound() const noexcept { return bound_; }
  [[nodiscard]] std::int64_t unbound() const noexcept { return unbound_; }  ///< How often a slot was freed.
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
