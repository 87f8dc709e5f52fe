// SPDX-License-Identifier: Apache-2.0
/// 64-bit XXH3 with AVX2: the same hashes in two thirds of the time. Call it only if the processor has AVX2.
/// xxHash's own dispatch (xxh_x86dispatch.h) is in its library, not in its headers, and programs that use a static
/// Zeroth would have to link that.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ZEROTH_HAS_XXH3_AVX2 1
#endif

namespace zeroth::checkpoint {

[[nodiscard]] std::uint64_t xxh3_avx2(std::span<std::byte const> bytes) noexcept;
/// `state` is an XXH3_state_t.
void xxh3_update_avx2(void* state, std::span<std::byte const> bytes) noexcept;

}  // namespace zeroth::checkpoint
