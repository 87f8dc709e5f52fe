// SPDX-License-Identifier: Apache-2.0
/// The words that kernels are written in, so that the same body runs on a GPU (gpu_block.hpp) and, in tests, as plain
/// loops on the host (tests/support/block_emulator.hpp).
///
/// A body is a small value, copied to the kernel when it is launched:
///
///     struct Body {
///       static constexpr int threads = 256;  // of a block; a multiple of warp_threads
///       struct Shared { ... };               // what the threads of a block share; anything at first
///       template <class Block>
///       ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const;
///     };
///
/// operator() is the program of one block, number block.index() of block.count(). It is a sequence of phases:
/// `block.phase(f)` calls `f(thread)` for every thread of the block and goes on when all are through; what they wrote
/// to shared and global memory is then there for all. In a phase no thread reads what another one writes. Between
/// phases nobody knows a thread: what stands there is the same for all of them, loops and conditions included.
///
/// `block.alone(f)` is a phase without a barrier, in which threads have nothing to do with each other: none touches
/// shared memory, and what it writes to global memory is there for the others only when the next phase is through.
///
/// `PerThread<T, Block>` is a value of each thread that lasts from phase to phase: `value[thread]`. A register on a
/// GPU.
///
/// `block.fold_warps(values, combine)` is where threads read each other's registers, without a barrier: in each warp
/// lane l takes lane l + 16, then l + 8, ... 1 (device::fold_halves), and lane 0's result is that of all lanes.
/// `combine` must not depend on the order of its two arguments.
///
/// Tensor cores and copies that run beside them have words of their own: warp.hpp.
#pragma once

#if defined(__CUDACC__)
#define ZEROTH_DEVICE __device__
/// Before a loop that must be unrolled: an array in registers cannot be indexed by a variable. Or before one that must
/// not be, since copies of its body would be worked on together, each with registers of its own.
#define ZEROTH_UNROLL _Pragma("unroll")
#define ZEROTH_UNROLL_NOT _Pragma("unroll 1")
#else
#define ZEROTH_DEVICE
#define ZEROTH_UNROLL
#define ZEROTH_UNROLL_NOT
#endif

namespace zeroth::cuda {

inline constexpr int warp_threads = 32;

template <class T, class Block>
using PerThread = typename Block::template PerThread<T>;

}  // namespace zeroth::cuda
