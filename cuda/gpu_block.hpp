// SPDX-License-Identifier: Apache-2.0
/// Blocks of a GPU, and the launch of a body on a stream. For nvcc.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "cuda/block.hpp"
#include "cuda/gpu_warp.hpp"
#include "device/element_arithmetic.hpp"

namespace zeroth::cuda {

class GpuBlock {
 public:
  template <class T>
  class PerThread {
   public:
    __device__ T& operator[](int /*thread*/) { return value_; }

   private:
    T value_;
  };
  using Warp = GpuWarp;
  template <class T>
  class PerWarp {
   public:
    __device__ T& operator[](GpuWarp const& /*warp*/) { return value_; }

   private:
    T value_;
  };

  [[nodiscard]] __device__ std::int64_t index() const { return blockIdx.x; }
  [[nodiscard]] __device__ std::int64_t count() const { return gridDim.x; }

  template <class F>
  __device__ void phase(F const& function) const {
    function(static_cast<int>(threadIdx.x));
    __syncthreads();
  }

  template <class F>
  __device__ void alone(F const& function) const {
    function(static_cast<int>(threadIdx.x));
  }

  /// Lanes l and l ^ half combine the same two values, so all lanes get lane 0's result.
  template <class T, class Combine>
  __device__ void fold_warps(PerThread<T>& values, Combine const& combine) const {
    T& mine = values[static_cast<int>(threadIdx.x)];
    device::fold_halves(warp_threads,
                        [&](int half) { mine = combine(mine, __shfl_xor_sync(0xffffffffU, mine, half)); });
  }

  template <class F>
  __device__ void warps(F const& function) const {
    open_warps(function);
    __syncthreads();
  }
  template <class F>
  __device__ void open_warps(F const& function) const {
    GpuWarp warp;
    function(warp);
  }

  template <class F>
  __device__ void fetch(F const& function) const {
    function(static_cast<int>(threadIdx.x), GpuCopy{});
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  __device__ void await_fetches() const {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
  }
};

/// The maximum of resident threads per multiprocessor (CUDA C++ Programming Guide, "Technical Specifications per
/// Compute Capability"). Fewer on GPUs that are not for data centers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ != 900 && __CUDA_ARCH__ / 100 != 10
inline constexpr int resident_threads = 1536;
#else
inline constexpr int resident_threads = 2048;
#endif

/// The minimum of blocks per multiprocessor: the number that a body requests, which bounds its registers, or as many as
/// there is room for. 0 leaves it to the compiler; with 1 it may use over 1.5 times as many registers.
template <class Body>
inline constexpr int resident_blocks = 0;
template <class Body>
  requires requires { Body::resident_blocks; }
inline constexpr int resident_blocks<Body> = std::min(Body::resident_blocks, resident_threads / Body::threads);

template <class Body>
__global__ void __launch_bounds__(Body::threads, resident_blocks<Body>) run(__grid_constant__ Body const body) {
  __shared__ typename Body::Shared shared;
  GpuBlock block;
  body(block, shared);
}

/// Launches bodies on a stream. The result is an error of the launch, or of earlier work that has failed.
struct OnStream {
  cudaStream_t stream;

  /// Launches `blocks` blocks, limited to the size of a grid. Bodies stride over their work, so they do all of it
  /// either way.
  template <class Body>
  [[nodiscard]] cudaError_t operator()(Body const& body, std::int64_t blocks) const {
    auto const grid = static_cast<unsigned>(std::min<std::int64_t>(blocks, std::numeric_limits<std::int32_t>::max()));
    void* arguments[] = {const_cast<Body*>(&body)};  // NOLINT: the interface is older than const
    return cudaLaunchKernel(run<Body>, dim3{grid}, dim3{Body::threads}, arguments, 0, stream);
  }
};

}  // namespace zeroth::cuda
