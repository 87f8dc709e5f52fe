// SPDX-License-Identifier: Apache-2.0
/// The caller's own CUDA stream as the stream that an engine computes on, and its own memory of GPUs. Needs CUDA's
/// headers, and no more of CUDA.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "zeroth/device/cuda.hpp"
#include "zeroth/engine/engine.hpp"

namespace zeroth {

/// What Job::compute_on() takes. The stream belongs to the caller, is on the rank's GPU, and outlives the engine. Null
/// is the default stream, and waits for none of the engine's others. cudaStreamPerThread is that of the thread that the
/// engine is used on; where ranks communicate by NCCL, which has threads of its own, and nothing overlaps
/// (zero_optimization.overlap_comm is false) the first transaction refuses it with a ContractError.
[[nodiscard]] inline device::StreamRef stream_ref(cudaStream_t stream) noexcept { return {stream}; }

/// The stream that `engine` orders parameters and gradients on: what the caller's kernels are to be enqueued on. Null
/// on the CPU, where that is the calling thread.
template <Element T, GradientOf<T> G>
[[nodiscard]] cudaStream_t cuda_stream(Engine<T, G> const& engine) noexcept {
  return static_cast<cudaStream_t>(engine.compute_stream().native);
}

/// device::set_cuda_allocator() with `allocate(bytes, stream)`, which returns a block, and `deallocate(block, bytes,
/// stream)`.
template <class Allocate, class Deallocate>
void set_cuda_allocator(Allocate allocate, Deallocate deallocate) {
  device::set_cuda_allocator(
      {[allocate = std::move(allocate)](std::size_t bytes, device::StreamRef stream) -> void* {
         return allocate(bytes, static_cast<cudaStream_t>(stream.native));
       },
       [deallocate = std::move(deallocate)](void* block, std::size_t bytes, device::StreamRef stream) {
         deallocate(block, bytes, static_cast<cudaStream_t>(stream.native));
       }});
}

}  // namespace zeroth
