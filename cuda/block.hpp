// SPDX-License-Identifier: Apache-2.0
/// The vocabulary of kernels. The same body runs on a GPU (gpu_block.hpp) and, in tests, as plain loops on the host
/// (tests/support/block_emulator.hpp).
///
/// A body is a small value, copied to the kernel when it is launched:
///
///     struct Body {
///       static constexpr int threads = 256;  // per block; a multiple of warp_threads
///       struct Shared { ... };               // shared by the threads of a block; not initialised
///       template <class Block>
///       ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const;
///     };
///
/// operator() is the program of one block, number block.index() of block.count(). It is a sequence of phases:
/// `block.phase(f)` calls `f(thread)` for every thread of the block, and continues when all have returned; their writes
/// to shared and global memory are then visible to all threads. Within a phase no thread reads what another one writes.
/// Code between phases is uniform across threads, including loops and conditions.
///
/// `block.alone(f)` is a phase without a barrier, in which threads do not interact. They must not access shared memory.
/// Their writes to global memory are visible to other threads only after the next phase.
///
/// `PerThread<T, Block>` is a value of each thread that lasts across phases: `value[thread]`. It is a register on a
/// GPU.
///
/// `block.fold_warps(values, combine)` reads registers of other threads, without a barrier. In each warp, lane l takes
/// lane l + 16, then l + 8, ... l + 1 (device::fold_halves), and lane 0's result is that of all lanes. `combine` must
/// not depend on the order of its two arguments.
///
/// warp.hpp has the vocabulary for tensor cores and for copies that run concurrently with them.
#pragma once

#if defined(__CUDACC__)
#define ZEROTH_DEVICE __device__
/// ZEROTH_UNROLL precedes a loop that must be unrolled, because an array in registers cannot be indexed by a variable.
/// ZEROTH_UNROLL_NOT precedes one that must not be: copies of its body would run interleaved, each with registers of
/// its own.
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
