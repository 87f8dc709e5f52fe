// SPDX-License-Identifier: Apache-2.0
/// A CUDA runtime for tests on machines without a GPU, linked in place of libcudart.
///
/// Streams are queues that worker threads run, so that work of several streams races as it does on a GPU; device memory
/// is memory of the host. It replaces the functions that the library calls, and cudaStreamGetPriority, which tests ask:
///
///   cudaGetDeviceCount cudaSetDevice cudaGetDevice cudaDeviceGetStreamPriorityRange cudaDeviceGetAttribute
///   cudaDriverGetVersion cudaFuncGetAttributes cudaDeviceCanAccessPeer cudaDeviceEnablePeerAccess
///   cudaDeviceGetPCIBusId
///   cudaMalloc cudaFree cudaHostAlloc cudaFreeHost cudaMemGetInfo cudaMemcpyAsync cudaMemsetAsync
///   cudaStreamCreateWithPriority cudaStreamDestroy cudaStreamQuery cudaStreamWaitEvent cudaLaunchHostFunc
///   cudaEventCreateWithFlags cudaEventDestroy cudaEventRecord cudaEventQuery cudaEventElapsedTime
///   cudaGetLastError cudaGetErrorName cudaGetErrorString
///
/// What would block the host (cudaStreamSynchronize, cudaEventSynchronize, cudaDeviceSynchronize, cudaMemcpy and the
/// like) is missing on purpose: that a test links shows that the library calls none of it.
///
/// Stricter than CUDA where that finds mistakes: asynchronous copies from or to memory that CUDA does not know, which
/// would block the host, are refused; so are handles that were destroyed, and the default stream unless it is asked
/// for. New memory is full of garbage; a kernel that is given memory out of its GPU's reach is refused at its launch.
/// As in CUDA, cudaFree waits for the GPU, a kernel's first launch may, events are recorded on streams of their own
/// GPU, kernels launched on those of the current one, functions of the host run one at a time and may not call CUDA,
/// and an error of work that was enqueued is returned by every call that follows.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace zeroth::testing::fake_cuda {

struct Machine {
  int gpus = 1;
  std::size_t bytes = std::size_t{1} << 30U;  ///< Of each.
  bool peer_access = true;
  /// Beyond a multiple of 4096, where cudaMalloc's blocks start: a multiple of 256.
  std::size_t block_offset = 0;
  /// As of GPUs that reach all memory of the host: copies may be from and to what CUDA does not know.
  bool reaches_host_memory = false;
  unsigned delays = 0;  ///< Work of streams sleeps now and then, differently for every seed; 0: never.
  /// What an event with timing takes its stream. Where it is more than 0 time is made up: only such events, and
  /// pass_time(), take any.
  int timed_event_us = 0;
  bool default_stream = false;  ///< There is one, of each GPU: else the null handle is refused.
  int driver = CUDART_VERSION;  ///< The newest CUDA that the driver knows; 0: there is none.
  int capability = 90;          ///< Compute capability; fewer than 80 run no kernel.
};

/// A machine as new. Ends the test program if something of the last one is still alive: see leftovers().
void reset(Machine const& machine = {});
/// "2 blocks, 1 stream": what was not given back; empty if nothing.
[[nodiscard]] std::string leftovers();

/// Work of a stream: what a kernel is on a GPU. `work` must not wait for anything but the processor.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

/// Whether a stream that this thread has made still has work, on the GPU that has `memory`.
[[nodiscard]] bool has_work_beside(void const* memory);

/// How often each function was called since reset(). Kernels that were launched for the first time count as "load".
[[nodiscard]] std::map<std::string, std::int64_t> calls();
/// The same of one function; work that was enqueued counts as "launch".
[[nodiscard]] std::int64_t calls(std::string const& function);
/// How many events with timing were made since reset().
[[nodiscard]] std::int64_t timed_events_made();
/// The made-up time since reset(), in microseconds, and a way to let it pass.
[[nodiscard]] std::int64_t time_us();
void pass_time(std::int64_t microseconds);
/// Bytes of GPU memory in use on GPU 0.
[[nodiscard]] std::int64_t bytes_in_use();
/// Bytes of pinned memory of the host.
[[nodiscard]] std::int64_t pinned_bytes();

/// The call of `function` that follows `after` more of them returns `error` and does nothing.
void refuse(std::string const& function, cudaError_t error, int after = 0);
/// The work that follows `after` more pieces of work on GPU 0 fails with `error`, and with it the GPU.
void fail_work(cudaError_t error, int after = 0);

}  // namespace zeroth::testing::fake_cuda
