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
/// `PerThread<T, Block>` is a value of each thread that lasts from phase to phase: `value[thread]`. A register on a
/// GPU.
///
/// `block.fold_warps(values, combine)` is the one place where threads read each other's registers: in each warp lane l
/// takes lane l + 16, then l + 8, ... 1 (device::fold_halves). Lane 0 then holds the result, the others anything.
#pragma once

#if defined(__CUDACC__)
#define ZEROTH_DEVICE __device__
#else
#define ZEROTH_DEVICE
#endif

namespace zeroth::cuda {

inline constexpr int warp_threads = 32;

template <class T, class Block>
using PerThread = typename Block::template PerThread<T>;

}  // namespace zeroth::cuda
