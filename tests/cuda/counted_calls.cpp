// SPDX-License-Identifier: Apache-2.0
/// Interposes functions of the CUDA runtime by the linker's --wrap: calls of the library and of the test reach
/// __wrap_<function>, which counts them and calls __real_<function>, the runtime's. List them in CMakeLists.txt as
/// well.
#include "cuda/counted_calls.hpp"

#include <cuda_runtime_api.h>

#include <mutex>

namespace zeroth::testing {
namespace {

std::mutex mutex;
Calls& counts() {
  static Calls calls;
  return calls;
}
void count(char const* function) {
  std::lock_guard const lock{mutex};
  ++counts()[function];
}

}  // namespace

Calls counted_calls() {
  std::lock_guard const lock{mutex};
  return counts();
}

}  // namespace zeroth::testing

#define ZEROTH_COUNTED(function, name, parameters, arguments) \
  extern "C" cudaError_t __real_##function parameters;        \
  extern "C" cudaError_t __wrap_##function parameters;        \
  cudaError_t __wrap_##function parameters {                  \
    zeroth::testing::count(name);                             \
    return __real_##function arguments;                       \
  }
#define ZEROTH_COUNT(function, parameters, arguments) ZEROTH_COUNTED(function, #function, parameters, arguments)

ZEROTH_COUNT(cudaMalloc, (void** data, std::size_t bytes), (data, bytes))
ZEROTH_COUNT(cudaFree, (void* data), (data))
ZEROTH_COUNT(cudaMallocAsync, (void** data, std::size_t bytes, cudaStream_t stream), (data, bytes, stream))
ZEROTH_COUNT(cudaFreeAsync, (void* data, cudaStream_t stream), (data, stream))
ZEROTH_COUNT(cudaMallocHost, (void** data, std::size_t bytes), (data, bytes))
ZEROTH_COUNT(cudaHostAlloc, (void** data, std::size_t bytes, unsigned flags), (data, bytes, flags))
ZEROTH_COUNT(cudaFreeHost, (void* data), (data))
ZEROTH_COUNT(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),
             (stream, flags, priority))
ZEROTH_COUNT(cudaStreamDestroy, (cudaStream_t stream), (stream))
ZEROTH_COUNT(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags))
ZEROTH_COUNT(cudaEventDestroy, (cudaEvent_t event), (event))
ZEROTH_COUNT(cudaDeviceSynchronize, (), ())
ZEROTH_COUNT(cudaStreamSynchronize, (cudaStream_t stream), (stream))
ZEROTH_COUNT(cudaEventSynchronize, (cudaEvent_t event), (event))
ZEROTH_COUNT(cudaMemcpy, (void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind), (to, from, bytes, kind))
ZEROTH_COUNT(cudaMemset, (void* data, int value, std::size_t bytes), (data, value, bytes))
ZEROTH_COUNT(cudaMemcpyAsync, (void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
             (to, from, bytes, kind, stream))
ZEROTH_COUNT(cudaMemsetAsync, (void* data, int value, std::size_t bytes, cudaStream_t stream),
             (data, value, bytes, stream))
ZEROTH_COUNT(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void* data), (stream, function, data))
ZEROTH_COUNT(cudaStreamAddCallback, (cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned flags),
             (stream, function, data, flags))
ZEROTH_COUNT(cudaStreamQuery, (cudaStream_t stream), (stream))
ZEROTH_COUNT(cudaEventQuery, (cudaEvent_t event), (event))
// The same with a handle: nvcc writes one or the other.
ZEROTH_COUNTED(__cudaLaunchKernel, "launch",
               (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t stream),
               (kernel, grid, block, arguments, shared, stream))
ZEROTH_COUNTED(cudaLaunchKernel, "launch",
               (void const* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t stream),
               (kernel, grid, block, arguments, shared, stream))
