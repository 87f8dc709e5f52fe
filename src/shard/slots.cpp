// SPDX-License-Identifier: Apache-2.0
#include "shard/slots.hpp"

#include <algorithm>
#include <numeric>

namespace zeroth::shard {

std::int64_t SlotCounts::total_count() const noexcept {
  return std::accumulate(classes.begin(), classes.end(), std::int64_t{0},
                         [](std::int64_t sum, SlotClass const& c) { return sum + c.slots * c.capacity_count; });
}

int SlotCounts::total_slots() const noexcept {
  return std::accumulate(classes.begin(), classes.end(), 0, [](int sum, SlotClass const& c) { return sum + c.slots; });
}

namespace {

std::int64_t bytes_of_element(SlotClass const& slot_class, std::int64_t element_bytes) noexcept {
  return slot_class.fp32 ? bytes_of(Dtype::fp32) : element_bytes;
}

}  // namespace

std::int64_t SlotCounts::total_bytes(std::int64_t element_bytes) const noexcept {
  return std::accumulate(classes.begin(), classes.end(), std::int64_t{0}, [&](std::int64_t sum, SlotClass const& c) {
    return sum + c.slots * c.capacity_count * bytes_of_element(c, element_bytes);
  });
}

SlotCounts classify(ById<FlatId, std::int64_t> const& counts, ById<FlatId, char> const& fp32) {
  auto const is_fp32 = [&](FlatId flat) { return !fp32.empty() && fp32[flat] != 0; };
  auto const ids = counts.ids();
  std::vector<FlatId> by_size(ids.begin(), ids.end());
  std::ranges::stable_sort(
      by_size, [&](FlatId a, FlatId b) { return is_fp32(a) != is_fp32(b) ? is_fp32(b) : counts[a] > counts[b]; });
  SlotCounts result;
  result.class_of.assign(counts.size(), -1);
  for (auto const flat : by_size) {
    if (counts[flat] == 0) {
      continue;
    }
    if (result.classes.empty() || result.classes.back().fp32 != is_fp32(flat) ||
        2 * counts[flat] <= result.classes.back().capacity_count) {
      result.classes.push_back({counts[flat], {}, 0, is_fp32(flat)});
    }
    result.classes.back().flats.push_back(flat);
    result.class_of[flat] = static_cast<int>(result.classes.size()) - 1;
  }
  return result;
}

Slot slot_of_its_own(device::Device& device, std::byte* data, FlatId flat) {
  return {.data = data, .ready = device.make_event(), .free = device.make_event(), .flat = flat};
}

SlotPool::SlotPool(device::Device& device, SlotCounts const& counts, std::byte* memory, std::int64_t element_bytes)
    : class_of_{counts.class_of}, by_flat_(counts.class_of.size(), nullptr) {
  slots_.reserve(static_cast<std::size_t>(counts.total_slots()));
  for (auto const& slot_class : counts.classes) {
    auto const bytes = slot_class.capacity_count * bytes_of_element(slot_class, element_bytes);
    add_class(slot_class, bytes, memory, &device);
    memory += slot_class.slots * bytes;
  }
}

SlotPool::SlotPool(SlotCounts const& counts) : class_of_{counts.class_of}, by_flat_(counts.class_of.size(), nullptr) {
  slots_.reserve(static_cast<std::size_t>(counts.total_slots()));
  for (auto const& slot_class : counts.classes) {
    add_class(slot_class, 0, nullptr, nullptr);
  }
}

/// Appends slots to the existing ones. Slots have events if there is a device.
void SlotPool::add_class(SlotClass const& slot_class, std::int64_t bytes, std::byte* memory, device::Device* device) {
  auto const first = slots_.size();
  auto const event = [&] { return device == nullptr ? nullptr : device->make_event(); };
  for (int i = 0; i < slot_class.slots; ++i) {
    slots_.push_back({.data = memory == nullptr ? nullptr : memory + i * bytes, .ready = event(), .free = event()});
  }
  auto& members = classes_.emplace_back(Members{first, slots_.size(), bytes, nullptr, nullptr});
  for (auto slot = first; slot < slots_.size(); ++slot) {
    members.append(slots_[slot]);
  }
}

void SlotPool::Members::append(Slot& slot) noexcept {
  slot.next_free = nullptr;
  (last_free == nullptr ? first_free : last_free->next_free) = &slot;
  last_free = &slot;
}

Slot* SlotPool::Members::take_first() noexcept {
  auto* const slot = first_free;
  if (slot != nullptr) {
    first_free = slot->next_free;
    last_free = first_free == nullptr ? nullptr : last_free;
  }
  return slot;
}

void SlotPool::restore_order() noexcept {
  for (auto& members : classes_) {
    members.first_free = members.last_free = nullptr;
    for (auto i = members.first; i < members.last; ++i) {
      if (!slots_[i].flat) {
        members.append(slots_[i]);
      }
    }
  }
}

Slot* SlotPool::find(FlatId flat) noexcept { return by_flat_[flat]; }

SlotPool::Members& SlotPool::members(FlatId flat) noexcept {
  return classes_[static_cast<std::size_t>(class_of_[flat])];
}

std::int64_t SlotPool::slot_bytes(FlatId flat) const noexcept {
  return classes_[static_cast<std::size_t>(class_of_[flat])].bytes;
}

Slot* SlotPool::take(Slot& slot, FlatId flat) noexcept {
  slot.flat = flat;
  by_flat_[flat] = &slot;
  high_water_ = std::max(high_water_, ++bound_);
  return &slot;
}

Slot* SlotPool::bind(FlatId flat) {
  auto* const slot = members(flat).take_first();
  return slot == nullptr ? nullptr : take(*slot, flat);
}

bool SlotPool::has_free(FlatId flat) const noexcept {
  return classes_[static_cast<std::size_t>(class_of_[flat])].first_free != nullptr;
}

std::span<Slot const> SlotPool::slots_for(FlatId flat) const noexcept {
  auto const& members = classes_[static_cast<std::size_t>(class_of_[flat])];
  return std::span{slots_}.subspan(members.first, members.last - members.first);
}

void SlotPool::unbind(Slot& slot) noexcept {
  auto const flat = *slot.flat;
  by_flat_[flat] = nullptr;
  slot.flat.reset();
  members(flat).append(slot);
  --bound_;
  ++unbound_;
}

}  // namespace zeroth::shard
