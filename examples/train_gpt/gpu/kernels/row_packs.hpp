// SPDX-License-Identifier: Apache-2.0
/// Rows of matrices in accesses of 16 bytes, divided among threads.
#pragma once
#include <bit>
#include <concepts>
#include <cstdint>

#include "cuda/packs.hpp"
#include "cuda/warp.hpp"
#include "zeroth/core/dtype.hpp"

namespace gpt::gpu {

using zeroth::Element;
using zeroth::from_float;
using zeroth::cuda::Pack;
using zeroth::cuda::pack_count;
using zeroth::cuda::warp_threads;

/// Like zeroth::to_float, except for payloads of NaNs: fp16 takes one GPU instruction instead of six.
template <Element T>
[[nodiscard]] ZEROTH_DEVICE inline float float_of(T value) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::same_as<T, zeroth::fp16>) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
  }
#endif
  return zeroth::to_float(value);
}

/// Rounds like from_float, but converts two elements in one GPU instruction, instead of nine instructions each.
template <Element T, int count>
[[nodiscard]] ZEROTH_DEVICE inline Pack<T, count> from_floats(Pack<float, count> const& values) {
  if constexpr (std::same_as<T, float>) {
    return values;
  } else if constexpr (count % 2 != 0) {
    static_assert(count == 1);
    return {from_float<T>(values.at[0])};
  } else {
    Pack<std::uint32_t, count / 2> pairs;
    for (int k = 0; k < count / 2; ++k) {
      pairs.at[k] = zeroth::cuda::pair_of<T>(values.at[2 * k], values.at[2 * k + 1]);
    }
    return std::bit_cast<Pack<T, count>>(pairs);
  }
}

/// How threads that share a row access its packs. A thread has the same packs in each way, so that results have the
/// same bits.
enum class Way {
  kept,     ///< read once into registers, in one access each
  packs,    ///< read in one access each, whenever needed
  elements  ///< read whenever needed, element by element
};

/// Consecutive rows of `columns` elements, cut into packs of `count` elements. With Way::elements the last pack of a
/// row may be shorter.
template <int count, Way way>
struct RowPacks {
  std::int64_t columns;

  /// Whether an element of a pack is in the row.
  [[nodiscard]] ZEROTH_DEVICE bool has(std::int64_t column) const { return way != Way::elements || column < columns; }

  /// The pack at `column`, with zeros after the end of the row.
  template <class T>
  [[nodiscard]] ZEROTH_DEVICE Pack<T, count> read(T const* row, std::int64_t column) const {
    if constexpr (way == Way::elements) {
      Pack<T, count> pack{};
      for (int k = 0; k < count && has(column + k); ++k) {
        pack.at[k] = zeroth::cuda::load<1>(row + column + k).at[0];
      }
      return pack;
    } else {
      return zeroth::cuda::load<count>(row + column);
    }
  }
  template <class T>
  ZEROTH_DEVICE void write(T* row, std::int64_t column, Pack<T, count> const& pack) const {
    if constexpr (way == Way::elements) {
      for (int k = 0; k < count && has(column + k); ++k) {
        zeroth::cuda::store(row + column + k, Pack<T, 1>{pack.at[k]});
      }
    } else {
      zeroth::cuda::store(row + column, pack);
    }
  }
};

template <int count, class T>
[[nodiscard]] ZEROTH_DEVICE inline bool begins_with_a_pack(T const* array) {
  return reinterpret_cast<std::uintptr_t>(array) % alignof(Pack<T, count>) == 0;
}

/// Calls `function(rows)` with the fastest way: packs if all rows of all arrays allow them, and kept if there are
/// enough registers for the columns.
template <int count, int kept_columns = 0, class F, class... T>
ZEROTH_DEVICE void with_row_packs(std::int64_t columns, F const& function, T const*... arrays) {
  if (columns % count != 0 || !(... && begins_with_a_pack<count>(arrays))) {
    function(RowPacks<count, Way::elements>{columns});
    return;
  }
  if constexpr (kept_columns > 0) {
    if (columns <= kept_columns) {
      function(RowPacks<count, Way::kept>{columns});
      return;
    }
  }
  function(RowPacks<count, Way::packs>{columns});
}

/// The part of a row that one of `threads` threads has: packs thread, thread + threads, ...
template <Element T, int threads, int kept_columns>
struct RowPart {
  static constexpr int pack = pack_count<T>;
  static constexpr int kept_count = kept_columns / (threads * pack);
  Pack<T, pack> kept[kept_count];

  /// Calls `function(k, column)` for each pack, which is stored in kept[k].
  template <class F>
  static ZEROTH_DEVICE void each_kept(RowPacks<pack, Way::kept> const& rows, int thread, F const& function) {
    auto const behind = static_cast<int>(rows.columns) - thread * pack;
    ZEROTH_UNROLL
    for (int k = 0; k < kept_count; ++k) {
      if (k * threads * pack < behind) {
        function(k, std::int64_t{thread} * pack + k * threads * pack);
      }
    }
  }
  /// Calls `function(column)` for each pack.
  template <Way way, class F>
  static ZEROTH_DEVICE void each_column(RowPacks<pack, way> const& rows, int thread, F const& function) {
    for (std::int64_t column = std::int64_t{thread} * pack; column < rows.columns; column += threads * pack) {
      function(column);
    }
  }

  template <Way way>
  ZEROTH_DEVICE void read(RowPacks<pack, way> const& rows, T const* row, int thread) {
    if constexpr (way == Way::kept) {
      each_kept(rows, thread, [&](int k, std::int64_t column) { kept[k] = rows.read(row, column); });
    }
  }
  /// Calls `function(column, pack)` for all packs of the row given to read().
  template <Way way, class F>
  ZEROTH_DEVICE void each(RowPacks<pack, way> const& rows, T const* row, int thread, F const& function) const {
    if constexpr (way == Way::kept) {
      each_kept(rows, thread, [&](int k, std::int64_t column) { function(column, kept[k]); });
    } else {
      each_column(rows, thread, [&](std::int64_t column) { function(column, rows.read(row, column)); });
    }
  }
};

}  // namespace gpt::gpu
