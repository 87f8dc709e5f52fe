// SPDX-License-Identifier: Apache-2.0
/// The vocabulary for warps that multiply on tensor cores, in addition to block.hpp.
///
/// `block.warps(f)` is a phase written per warp: it calls `f(warp)` for every warp of the block, number warp.index(),
/// and continues when all have returned. In it
///
/// - `PerLane<T, Warp>` is a value of each lane: `value[lane]`, a register.
/// - `warp.lanes(f)` calls `f(lane)` for every lane. Lanes exchange nothing through memory before the phase ends.
/// - `warp.fold_quads(values, combine)` combines the values of the four lanes of each quad, and gives all four the
///   result. `combine` must not depend on the order of its arguments.
/// - `warp.load(fragment, address)` and `warp.load_transposed(fragment, address)` read four matrices of 8 x 8 elements
///   of 16 bits from shared memory: lane l gives the address of row l % 8 of matrix l / 8, 16 bytes at a multiple of 16
///   (PTX: ldmatrix).
/// - `warp.multiply_add(c, a, b)` adds the product of two 16 x 16 fragments to a third, in fp32 (PTX: mma.m16n8k16,
///   twice). The order of its sums depends on the machine, and is the same every time.
///
/// `PerWarp<T, Block>` is a value of each warp that lasts across phases: `kept[warp]`.
///
/// `block.fetch(f)` starts copies into shared memory: `f(thread, copy)` for every thread, where `copy(to, from, there)`
/// copies one object of 4 or 16 bytes, or zeros if `there` is false. No thread may access memory that is being fetched
/// before `block.await_fetches()`, which waits for all fetches of all threads.
///
/// `block.open_warps(f)` is `warps` without a barrier at its end: warps continue while others still read. Shared memory
/// must not change from its beginning to the next barrier, that of a phase or of await_fetches().
#pragma once
#include <cstdint>

#include "cuda/packs.hpp"

namespace zeroth::cuda {

template <class T, class Warp>
using PerLane = typename Warp::template PerLane<T>;
template <class T, class Block>
using PerWarp = typename Block::template PerWarp<T>;

/// Rows and columns of a fragment, which is a warp's part of a matrix: each lane has four pairs of neighbours in a row.
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
/// A right factor. A lane has the pairs that FragmentA has of the transpose, with the middle two exchanged.
template <class T>
struct FragmentB {
  std::uint32_t pairs[fragment_pairs];
};
/// A sum of products.
struct FragmentC {
  float pairs[fragment_pairs][2];
};

/// Packs two neighbours, the first in the lower half.
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

/// Rounds `sums` to a left factor.
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

/// Loads the fragment of shared memory that begins at `corner`, in rows of `stride` elements, a multiple of 8.
template <class Warp, class T>
ZEROTH_DEVICE inline void load_fragment(Warp& warp, PerLane<FragmentB<T>, Warp>& to, T const* corner, int stride) {
  warp.load_transposed(to, [&](int lane) { return corner + (lane / 8 % 2 * 8 + lane % 8) * stride + lane / 16 * 8; });
}
/// Loads the transpose of that fragment.
template <class Warp, class T>
ZEROTH_DEVICE inline void load_fragment_transposed(Warp& warp, PerLane<FragmentB<T>, Warp>& to, T const* corner,
                                                   int stride) {
  warp.load(to, [&](int lane) { return corner + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8; });
}

}  // namespace zeroth::cuda
