// SPDX-License-Identifier: Apache-2.0
/// Lets an engine compute on the caller's own CUDA stream, and allocate GPU memory through the caller's own functions.
/// Needs CUDA's headers, and nothing else of CUDA.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "zeroth/device/cuda.hpp"
#include "zeroth/engine/engine.hpp"

namespace zeroth {

/// Makes the argument of Job::compute_on(). The stream belongs to the caller, is on the rank's GPU, and must outlive
/// the engine. Null is the default stream; it does not wait for the engine's other streams. cudaStreamPerThread is the
/// stream of the thread that uses the engine. If ranks communicate by NCCL, which has threads of its own, and nothing
/// overlaps (zero_optimization.overlap_comm is false), the first transaction rejects it with a ContractError.
[[nodiscard]] inline device::StreamRef stream_ref(cudaStream_t stream) noexcept { return {stream}; }

/// The stream on which `engine` orders parameters and gradients: enqueue your kernels on it. Null on the CPU, where the
/// calling thread takes its place.
template <Element T, GradientOf<T> G>
[[nodiscard]] cudaStream_t cuda_stream(Engine<T, G> const& engine) noexcept {
  return static_cast<cudaStream_t>(engine.compute_stream().native);
}

/// Calls device::set_cuda_allocator() with `allocate(bytes, stream)`, which returns a block, and `deallocate(block,
/// bytes, stream)`.
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
