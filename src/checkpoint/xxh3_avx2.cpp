// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/xxh3_avx2.hpp"

#if defined(ZEROTH_HAS_XXH3_AVX2)
// Include all headers that the XXH3 header includes before the target changes. Then only the XXH3 functions, all
// private to this file, use instructions that the processor may lack. Not for clang, which has no such pragma.
#include <immintrin.h>

#include <climits>
#include <cstdlib>
#include <cstring>

#pragma GCC push_options
#pragma GCC target("avx2")
#define XXH_VECTOR 2  // XXH_AVX2
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zeroth::checkpoint {

std::uint64_t xxh3_avx2(std::span<std::byte const> bytes) noexcept { return XXH3_64bits(bytes.data(), bytes.size()); }

void xxh3_update_avx2(void* state, std::span<std::byte const> bytes) noexcept {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), bytes.data(), bytes.size());
}

}  // namespace zeroth::checkpoint
#pragma GCC pop_options
#endif
