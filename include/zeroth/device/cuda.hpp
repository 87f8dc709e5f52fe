// SPDX-License-Identifier: Apache-2.0
/// GPUs as devices. Interop with the caller's own streams is in adapters/cuda.hpp.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "zeroth/core/export.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::device {

/// Was the library built with CUDA?
[[nodiscard]] ZEROTH_EXPORT bool has_cuda() noexcept;
/// GPUs that this process sees: 0 without a driver, or without CUDA.
[[nodiscard]] ZEROTH_EXPORT int cuda_device_count() noexcept;
/// Why that is 0, in CUDA's words, and what to look at; of a driver that is too old for the CUDA that the library was
/// built with also which one is needed. Empty where there are GPUs.
[[nodiscard]] ZEROTH_EXPORT std::string why_no_gpu();

/// Where parameters, gradients and slots come from: from CUDA, or, in whole units of 2 MiB, from NCCL's allocator, so
/// that communicators can register them. The latter is refused where the library was built without NCCL.
enum class CudaBuffers : bool { plain, registrable };

/// A program's own memory of GPUs in place of cudaMalloc and cudaFree: a pool that it shares with the engine. Both are
/// called with the rank's GPU current, on the rank's thread; ranks that are threads call at the same time.
struct CudaAllocator {
  /// A block of `bytes`, more than 0, for work that is enqueued on `stream`. Null, or an exception, refuses it.
  std::function<void*(std::size_t bytes, StreamRef stream)> allocate;
  /// Takes back what allocate() gave, with the same `bytes`. Work that was enqueued on `stream`
  /// before may still use it, that of no other stream. What it throws is lost.
  std::function<void(void* block, std::size_t bytes, StreamRef stream)> deallocate;
};

/// Devices that this process makes from now on, those of engines too, take their memory from `allocator`, and keep it
/// until they end; an empty one is CUDA's own again. Any thread. What NCCL is to register (CudaBuffers) is NCCL's as
/// before. adapters/cuda.hpp has the same with CUDA's type of streams. Throws ContractError where one function is
/// missing, and where the library was built without CUDA.
ZEROTH_EXPORT void set_cuda_allocator(CudaAllocator allocator);

/// GPU `ordinal` of those that this process sees, which is made current on the calling thread and stays so. Several
/// ranks may be on one GPU: their streams do not wait for each other.
///
/// Memory, streams and events are made at the start; enqueueing allocates nothing, waits for nothing and calls nothing
/// back, with three exceptions: CUDA loads a kernel when it is launched first, and may allocate and wait for the GPU
/// then, unless the environment variable CUDA_MODULE_LOADING is EAGER; where more is being timed on a stream than ever
/// before, since the host is further ahead of the GPU, it makes as many events again; and while a Timeline is set,
/// every span makes two. Where the host has to wait (synchronize()), it asks again and again instead of blocking inside
/// the driver.
///
/// Errors: ContractError for a GPU that is not there. SystemError for one that the library's kernels were not built
/// for, naming its compute capability and theirs, and for a call that CUDA refused, naming it and the GPU. Work that
/// failed on the GPU, the caller's as well, is reported by a later call, as always in CUDA: the message says which call
/// it was found in. Either fails the device: its further work is passed over, and every wait() and synchronize() throws
/// the first error again.
[[nodiscard]] ZEROTH_EXPORT std::unique_ptr<Device> make_cuda_device(int ordinal,
                                                                     CudaBuffers buffers = CudaBuffers::plain);

}  // namespace zeroth::device
