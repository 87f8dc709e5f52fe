// SPDX-License-Identifier: Apache-2.0
/// GPUs as devices. adapters/cuda.hpp has interoperation with the caller's own streams.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "zeroth/core/export.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::device {

/// Whether the library was built with CUDA.
[[nodiscard]] ZEROTH_EXPORT bool has_cuda() noexcept;
/// Number of GPUs visible to this process; 0 without a driver, or without CUDA.
[[nodiscard]] ZEROTH_EXPORT int cuda_device_count() noexcept;
/// Why that number is 0, in CUDA's words, and what to check. If the driver is too old for the CUDA that the library was
/// built with, also the version that is needed. Empty if there are GPUs.
[[nodiscard]] ZEROTH_EXPORT std::string why_no_gpu();

/// The allocator of parameters, gradients and slots: CUDA's, or NCCL's in whole units of 2 MiB, so that communicators
/// can register them. The latter is rejected if the library was built without NCCL.
enum class CudaBuffers : bool { plain, registrable };

/// The program's own allocator of GPU memory in place of cudaMalloc and cudaFree, such as a pool that it shares with
/// the engine. Both functions are called with the rank's GPU current, on the rank's thread; ranks that are threads call
/// them concurrently.
struct CudaAllocator {
  /// Returns a block of `bytes`, more than 0, for work enqueued on `stream`. Null or an exception means failure.
  std::function<void*(std::size_t bytes, StreamRef stream)> allocate;
  /// Frees a block from allocate(), with the same `bytes`. Work enqueued earlier on `stream` may still use it; work on
  /// other streams does not. Exceptions are ignored.
  std::function<void(void* block, std::size_t bytes, StreamRef stream)> deallocate;
};

/// Makes all devices that this process creates from now on, including those of engines, allocate from `allocator`,
/// until they are destroyed. An empty allocator restores CUDA's. Memory that NCCL is to register (CudaBuffers) still
/// comes from NCCL. Any thread. adapters/cuda.hpp has the same with CUDA's stream type. Throws ContractError if only
/// one function is set, and if the library was built without CUDA.
ZEROTH_EXPORT void set_cuda_allocator(CudaAllocator allocator);

/// Makes a device for GPU `ordinal` of those visible to this process, and leaves it current on the calling thread.
/// Several ranks may share a GPU; their streams do not wait for each other.
///
/// Memory, streams and events are made at the start. Enqueueing does not allocate, wait or call back, with three
/// exceptions. CUDA loads a kernel at its first launch, and may then allocate and wait for the GPU, unless the
/// environment variable CUDA_MODULE_LOADING is EAGER. If more work of a stream is being timed than ever before, because
/// the host is further ahead of the GPU, the number of events doubles. And while a Timeline is set, every span makes
/// two events. If the host has to wait (synchronize()), it polls instead of blocking inside the driver.
///
/// Errors: ContractError for a GPU that does not exist. SystemError for a GPU that the library's kernels were not built
/// for, with its compute capability and theirs, and for a failed CUDA call, with the call and the GPU. As always in
/// CUDA, a failure of work on the GPU, including the caller's, is reported by a later call; the message names the call
/// that found it. Either kind of SystemError fails the device: later work is skipped, and every wait() and
/// synchronize() throws the first error again.
[[nodiscard]] ZEROTH_EXPORT std::unique_ptr<Device> make_cuda_device(int ordinal,
                                                                     CudaBuffers buffers = CudaBuffers::plain);

}  // namespace zeroth::device
