// SPDX-License-Identifier: Apache-2.0
#include "support/allocations.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> allocations{0};

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* const memory = allocate(bytes, alignment)) {
    return memory;
  }
  throw std::bad_alloc{};
}

constexpr std::size_t usual = alignof(std::max_align_t);

}  // namespace

namespace zeroth::test {
std::int64_t allocation_count() noexcept { return allocations.load(std::memory_order_relaxed); }
}  // namespace zeroth::test

// All forms, because a sanitizer's own operators would not match free().
using Alignment = std::align_val_t;
void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, usual); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes, usual); }
void* operator new(std::size_t bytes, Alignment to) { return allocate_or_throw(bytes, static_cast<std::size_t>(to)); }
void* operator new[](std::size_t bytes, Alignment to) { return allocate_or_throw(bytes, static_cast<std::size_t>(to)); }
void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept { return allocate(bytes, usual); }
void* operator new[](std::size_t bytes, std::nothrow_t const&) noexcept { return allocate(bytes, usual); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, Alignment) noexcept { std::free(memory); }
void operator delete[](void* memory, Alignment) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, Alignment) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, Alignment) noexcept { std::free(memory); }
void operator delete(void* memory, std::nothrow_t const&) noexcept { std::free(memory); }
void operator delete[](void* memory, std::nothrow_t const&) noexcept { std::free(memory); }
