// SPDX-License-Identifier: Apache-2.0
/// Addresses in memory with an element type that is known at run time.
#pragma once
#include <cstddef>
#include <cstdint>

namespace zeroth {

[[nodiscard]] inline std::byte const* bytes_at(void const* base, std::int64_t offset) noexcept {
  return static_cast<std::byte const*>(base) + offset;
}
[[nodiscard]] inline std::byte* bytes_at(void* base, std::int64_t offset) noexcept {
  return static_cast<std::byte*>(base) + offset;
}

}  // namespace zeroth
