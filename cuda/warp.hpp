// SPDX-License-Identifier: Apache-2.0
/// Words for warps that multiply on tensor cores, beside those of block.hpp.
///
/// `block.warps(f)` is a phase that is written warp by warp: it calls `f(warp)` for every warp of the block, number
/// warp.index(), and goes on when all are through. In it
///
/// - `PerLane<T, Warp>` is a value of each lane: `value[lane]`, a register.
/// - `warp.lanes(f)` calls `f(lane)` for every lane. Through memory lanes exchange nothing before the phase ends.
/// - `warp.fold_quads(values, combine)` gives the four lanes of each quad what `combine` makes of their values, which
///   must not depend on the order of its arguments.
/// - `warp.load(fragment, address)` and `warp.load_transposed(fragment, address)` read four matrices of 8 x 8 elements
///   of 16 bits from shared memory: lane l gives the address of row l % 8 of matrix l / 8, 16 bytes at a multiple of 16
///   (PTX: ldmatrix).
/// - `warp.multiply_add(c, a, b)` adds the product of two 16 x 16 fragments to a third, in fp32 (PTX: mma.m16n8k16,
///   twice). The order of its sums is the machine's, and the same every time.
///
/// `PerWarp<T, Block>` is what a warp keeps from phase to phase: `kept[warp]`.
///
/// `block.fetch(f)` starts copies into shared memory: `f(thread, copy)` for every thread, where `copy(to, from, there)`
/// copies one object of 4 or 16 bytes, or zeros if it is not `there`. What is being fetched is nobody's to read or
/// write before `block.await_fetches()`, which goes on when all fetches of all threads have come.
///
/// `block.open_warps(f)` is `warps` without a barrier behind it: warps go on while others still read. From its
/// beginning to the next barrier, that of a phase or of await_fetches(), shared memory is not changed.
#pragma once
#include <cstdint>

#include "cuda/packs.hpp"

namespace zeroth::cuda {

template <class T, class Warp>
using PerLane = typename Warp::template PerLane<T>;
template <class T, class Block>
using PerWarp = typename Block::template PerWarp<T>;

/// Rows and columns of a fragment: what a warp holds of a matrix, four pairs of neighbours in a row for each lane.
inline constexpr int fragment_side = 16, fragment_pairs = 4;

/// The row and the first column of a lane's pair, in FragmentA and FragmentC (PTX ISA, "Matrix Fragments for
/// mma.m16n8k16").
[[nodiscard]] ZEROTH_HOST_DEVICE constexpr int row_of_pair(int lane, int pair) { return lane / 4 + pair % 2 * 8; }
[[nodiscard]] ZEROTH_HOST_DEVICE constexpr int column_of_pair(int lane, int pair) {
  return lane % 4 * 2 + pair / 2 * 8;
}

/// A left factor; T has 16 bits.
template <class T>
struct FragmentA {
  std::uint32_t pairs[fragment_pairs];
};
/// A right factor. Of its transpose a lane has the pairs that FragmentA has, the middle two exchanged.
template <class T>
struct FragmentB {
  std::uint32_t pairs[fragment_pairs];
};
/// A sum of products.
struct FragmentC {
  float pairs[fragment_pairs][2];
};

/// Two neighbours, the lower half first.
template <class T>
[[nodiscard]] ZEROTH_DEVICE inline std::uint32_t pair_of(float first, float second) {
#if defined(__CUDA_ARCH__)
  std::uint32_t pair;
  if constexpr (dtype_of<T> == Dtype::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  }
  return pair;
#else
  return std::bit_cast<std::uint32_t>(Pack<T, 2>{from_float<T>(first), from_float<T>(second)});
#endif
}

/// `sums`, rounded, as a left factor.
template <class T, class Warp>
ZEROTH_DEVICE inline void round_to(Warp& warp, PerLane<FragmentC, Warp>& sums, PerLane<FragmentA<T>, Warp>& rounded) {
  warp.lanes([&](int lane) {
    ZEROTH_UNROLL
    for (int k = 0; k < fragment_pairs; ++k) {
      float const(&pair)[2] = sums[lane].pairs[k];
      rounded[lane].pairs[k] = pair_of<T>(pair[0], pair[1]);
    }
  });
}

/// The fragment of shared memory that begins at `corner`, in rows of `stride` elements, a multiple of 8.
template <class Warp, class T>
ZEROTH_DEVICE inline void load_fragment(Warp& warp, PerLane<FragmentB<T>, Warp>& to, T const* corner, int stride) {
  warp.load_transposed(to, [&](int lane) { return corner + (lane / 8 % 2 * 8 + lane % 8) * stride + lane / 16 * 8; });
}
/// Its transpose.
template <class Warp, class T>
ZEROTH_DEVICE inline void load_fragment_transposed(Warp& warp, PerLane<FragmentB<T>, Warp>& to, T const* corner,
                                                   int stride) {
  warp.load(to, [&](int lane) { return corner + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8; });
}

}  // namespace zeroth::cuda
