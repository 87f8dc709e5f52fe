// SPDX-License-Identifier: Apache-2.0
/// Element-wise work in accesses of 16 bytes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "cuda/block.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::cuda {

inline constexpr int access_bytes = 16;

/// `count` elements, moved by the fewest possible accesses.
template <class T, int count>
struct alignas(sizeof(T) * count < access_bytes ? sizeof(T) * count : access_bytes) Pack {
  T at[count];
};

#ifndef __CUDACC__
/// Counts packs and single elements of global memory that this thread has loaded or stored. Used when a kernel's body
/// runs on the host.
struct Accesses {
  std::int64_t packs = 0, singles = 0;
};
inline thread_local Accesses accesses;
#endif

template <int count>
ZEROTH_DEVICE inline void count_access() {
#ifndef __CUDACC__
  ++(count > 1 ? accesses.packs : accesses.singles);
#endif
}

/// Loads one pack of global memory.
template <int count, class T>
[[nodiscard]] ZEROTH_DEVICE inline Pack<T, count> load(T const* from) {
  count_access<count>();
  return *reinterpret_cast<Pack<T, count> const*>(from);
}

template <class T, int count>
ZEROTH_DEVICE inline void store(T* to, Pack<T, count> const& pack) {
  count_access<count>();
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(pack) % sizeof(uint4) == 0) {
    // nvcc 13 splits some plain assignments into narrow stores.
    uint4 words[sizeof(pack) / sizeof(uint4)];
    memcpy(words, &pack, sizeof(pack));
    for (int k = 0; k < static_cast<int>(sizeof(pack) / sizeof(uint4)); ++k) {
      asm volatile(
          "st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(reinterpret_cast<uint4*>(to) + k)),
          "r"(words[k].x), "r"(words[k].y), "r"(words[k].z), "r"(words[k].w)
          : "memory");
    }
    return;
  }
#endif
  *reinterpret_cast<Pack<T, count>*>(to) = pack;
}

/// Elements of a pack in which the narrowest of several types fills an access.
template <class... T>
inline constexpr int pack_count = access_bytes / static_cast<int>(std::min({sizeof(T)...}));

struct Array {
  void const* address;
  std::int64_t element_bytes;
};

/// Positions of packs of `count` elements in arrays that are processed together: at elements origin + k * count, where
/// all addresses are multiples of access_bytes. If there are no such elements, `aligned` is false and there are no
/// packs.
template <int count>
struct PackGrid {
  bool aligned = false;
  std::int64_t origin = 0;  ///< In (-count, 0].

  /// The start of the pack that contains `element`.
  [[nodiscard]] ZEROTH_HOST_DEVICE constexpr std::int64_t begin_of_pack(std::int64_t element) const {
    return origin + (element - origin) / count * count;
  }
};

template <int count>
[[nodiscard]] inline PackGrid<count> pack_grid(std::span<Array const> arrays) {
  for (std::int64_t first = 0; first < count; ++first) {
    if (std::all_of(arrays.begin(), arrays.end(), [&](Array const& array) {
          auto const bytes = static_cast<std::uintptr_t>(first * array.element_bytes);
          return (reinterpret_cast<std::uintptr_t>(array.address) + bytes) % access_bytes == 0;
        })) {
      return {true, first == 0 ? 0 : first - count};
    }
  }
  return {};
}

/// The elements [begin, end) that a block processes at a time. All tiles but the first begin where a pack begins.
struct Tile {
  std::int64_t begin, end;
};

template <int tile_count, int count>
[[nodiscard]] ZEROTH_HOST_DEVICE constexpr std::int64_t tiles_of(PackGrid<count> const& grid, std::int64_t begin,
                                                                 std::int64_t end) {
  return begin < end ? (end - grid.begin_of_pack(begin) + tile_count - 1) / tile_count : 0;
}

template <int tile_count, int count>
[[nodiscard]] ZEROTH_HOST_DEVICE constexpr Tile tile_of(PackGrid<count> const& grid, std::int64_t begin,
                                                        std::int64_t end, std::int64_t index) {
  static_assert(tile_count % count == 0);
  std::int64_t const first = grid.begin_of_pack(begin) + index * tile_count;
  std::int64_t const behind = first + tile_count;
  return {first > begin ? first : begin, behind < end ? behind : end};
}

template <int value>
using Count = std::integral_constant<int, value>;

/// Processes this thread's part of a tile: calls `function(i, Count<count>{})` for packs that begin at element i, and
/// `function(i, Count<1>{})` for elements in no whole pack. `threads` threads share the tile.
template <int threads, int count, class F>
ZEROTH_DEVICE inline void each_pack(PackGrid<count> const& grid, Tile const& tile, int thread, F const& function) {
  // Elements before the first whole pack, and after the last one. All elements if there are no packs.
  std::int64_t head_end = tile.end;
  std::int64_t tail_begin = tile.end;
  if (grid.aligned) {
    std::int64_t const first = grid.begin_of_pack(tile.begin + count - 1);
    std::int64_t const last = grid.begin_of_pack(tile.end);
    if (first < last) {
      head_end = first;
      tail_begin = last;
    }
  }
  for (std::int64_t i = head_end + thread * count; i < tail_begin; i += threads * count) {
    function(i, Count<count>{});
  }
  std::int64_t const head = head_end - tile.begin;
  std::int64_t const rest = head + (tile.end - tail_begin);
  for (std::int64_t k = thread; k < rest; k += threads) {
    function(k < head ? tile.begin + k : tail_begin + (k - head), Count<1>{});
  }
}

}  // namespace zeroth::cuda
