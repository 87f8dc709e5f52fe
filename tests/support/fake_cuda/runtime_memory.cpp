// SPDX-License-Identifier: Apache-2.0
/// The functions of the CUDA runtime: GPUs, memory and errors.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "support/fake_cuda/machine.hpp"

using zeroth::testing::fake_cuda::answer;
using zeroth::testing::fake_cuda::current_gpu;
using zeroth::testing::fake_cuda::enqueue;
using zeroth::testing::fake_cuda::greatest_priority;
using zeroth::testing::fake_cuda::least_priority;
using zeroth::testing::fake_cuda::State;
using zeroth::testing::fake_cuda::take_last_error;

namespace {

constexpr std::size_t page = 4096;
constexpr int garbage = 0xa5;

/// Allocates `offset` bytes beyond a page, and registers the block for `gpu`, or for the host.
void* take(State& state, std::size_t bytes, std::size_t offset, int gpu) {
  void* const memory = std::aligned_alloc(page, (bytes + offset + page - 1) / page * page);
  auto* const data = static_cast<std::byte*>(memory) + offset;
  std::memset(data, garbage, bytes);
  state.blocks[reinterpret_cast<std::uintptr_t>(data)] = {bytes, gpu, memory};
  return data;
}

/// Removes a block and returns its memory, for std::free; null if there is no block, or it is of another kind.
void* remove(State& state, void* data, bool of_host) {
  auto const found = state.blocks.find(reinterpret_cast<std::uintptr_t>(data));
  if (found == state.blocks.end() || (found->second.gpu < 0) != of_host) {
    return nullptr;
  }
  auto const block = found->second;
  state.blocks.erase(found);
  if (!of_host) {
    state.gpus[static_cast<std::size_t>(block.gpu)].bytes_in_use -= block.bytes;
  }
  return block.memory;
}

/// A GPU that has failed returns its error from every call, and frees nothing while its context exists: streams of
/// other GPUs may be writing to the memory, and nothing waits for them.
void give_back(State& state, void* memory, int gpu) {
  bool const failed = gpu >= 0 && state.gpus[static_cast<std::size_t>(gpu)].error != cudaSuccess;
  if (failed) {
    state.lost.emplace_back(memory, &std::free);
  } else {
    std::free(memory);
  }
}

std::vector<std::shared_ptr<CUstream_st>> streams_of(State& state, int gpu) {
  std::vector<std::shared_ptr<CUstream_st>> streams;
  for (auto const& [handle, stream] : state.streams) {
    if (stream->gpu == gpu) {
      streams.push_back(stream);
    }
  }
  return streams;
}

}  // namespace

bool zeroth::testing::fake_cuda::has_work_beside(void const* memory) {
  auto& state = State::get();
  std::unique_lock lock{state.mutex};
  auto const* const block = state.find(memory, 0);
  auto streams = streams_of(state, block == nullptr ? -1 : block->gpu);
  lock.unlock();
  return std::any_of(streams.begin(), streams.end(),
                     [](auto const& stream) { return stream->owner == std::this_thread::get_id() && !stream->idle(); });
}

extern "C" {

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int gpu) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (gpu < 0 || gpu >= state.machine.gpus) {
    return answer(cudaErrorInvalidDevice);
  }
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", gpu + 1);
  return answer(state.enter("cudaDeviceGetPCIBusId", gpu));
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int gpu) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (gpu < 0 || gpu >= state.machine.gpus) {
    return answer(cudaErrorInvalidDevice);
  }
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "%s", state.machine.name);
  return answer(state.enter("cudaGetDeviceProperties", gpu));
}

cudaError_t cudaGetDeviceCount(int* count) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  *count = state.machine.gpus;
  if (state.machine.driver / 1000 < CUDART_VERSION / 1000) {
    return answer(cudaErrorInsufficientDriver);
  }
  return *count > 0 ? state.enter("cudaGetDeviceCount", 0) : answer(cudaErrorNoDevice);
}

cudaError_t cudaDriverGetVersion(int* version) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  *version = state.machine.driver;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int gpu) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (attribute != cudaDevAttrComputeCapabilityMajor && attribute != cudaDevAttrComputeCapabilityMinor) {
    return answer(cudaErrorInvalidValue);
  }
  bool const is_major = attribute == cudaDevAttrComputeCapabilityMajor;
  *value = is_major ? state.machine.capability / 10 : state.machine.capability % 10;
  return answer(state.enter("cudaDeviceGetAttribute", gpu));
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void const* /*function*/) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  *attributes = {};
  auto const error = state.enter("cudaFuncGetAttributes", current_gpu());
  return answer(error == cudaSuccess && state.machine.capability < 80 ? cudaErrorNoKernelImageForDevice : error);
}

cudaError_t cudaSetDevice(int gpu) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (gpu < 0 || gpu >= state.machine.gpus) {
    return answer(cudaErrorInvalidDevice);
  }
  current_gpu() = gpu;
  return answer(state.enter("cudaSetDevice", gpu));
}

cudaError_t cudaGetDevice(int* gpu) {
  *gpu = current_gpu();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  *least = least_priority;
  *greatest = greatest_priority;
  return answer(state.enter("cudaDeviceGetStreamPriorityRange", current_gpu()));
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int /*gpu*/, int /*peer*/) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  *can = state.machine.peer_access ? 1 : 0;
  return answer(state.enter("cudaDeviceCanAccessPeer", current_gpu()));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned /*flags*/) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (auto const error = state.enter("cudaDeviceEnablePeerAccess", current_gpu()); error != cudaSuccess) {
    return answer(error);
  }
  if (!state.machine.peer_access || peer >= state.machine.gpus) {
    return answer(cudaErrorPeerAccessUnsupported);
  }
  bool const is_new = state.gpus[static_cast<std::size_t>(current_gpu())].reaches.insert(peer).second;
  return answer(is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  int const gpu = current_gpu();
  if (auto const error = state.enter("cudaMalloc", gpu); error != cudaSuccess) {
    return answer(error);
  }
  auto& in_use = state.gpus[static_cast<std::size_t>(gpu)].bytes_in_use;
  if (bytes > state.machine.bytes - in_use) {
    return answer(cudaErrorMemoryAllocation);
  }
  in_use += bytes;
  *data = take(state, bytes, state.machine.block_offset, gpu);
  return cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  auto& state = State::get();
  std::unique_lock lock{state.mutex};
  auto const error = state.enter("cudaFree", current_gpu());
  if (error == cudaErrorStreamCaptureUnsupported) {
    return answer(error);
  }
  auto const* const block = state.find(data, 0);
  int const gpu = block == nullptr ? -1 : block->gpu;
  auto busy = streams_of(state, gpu);
  lock.unlock();
  for (auto const& stream : busy) {
    stream->drain();
  }
  busy.clear();  // ends those that were destroyed meanwhile
  lock.lock();
  void* const memory = remove(state, data, false);
  give_back(state, memory, gpu);
  return answer(memory == nullptr && data != nullptr ? cudaErrorInvalidValue : error);
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned /*flags*/) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (auto const error = state.enter("cudaHostAlloc", current_gpu()); error != cudaSuccess) {
    return answer(error);
  }
  *data = take(state, bytes, 0, -1);
  return cudaSuccess;
}

/// Waits for work of the calling thread's GPU, which may use the memory. It does not wait for other GPUs: ranks that
/// are threads in a test, each on its own GPU, are processes in reality, and must not wait for each other here.
cudaError_t cudaFreeHost(void* data) {
  auto& state = State::get();
  std::unique_lock lock{state.mutex};
  auto const error = state.enter("cudaFreeHost", current_gpu());
  if (error == cudaErrorStreamCaptureUnsupported) {
    return answer(error);
  }
  auto busy = streams_of(state, current_gpu());
  lock.unlock();
  for (auto const& stream : busy) {
    stream->drain();
  }
  busy.clear();  // ends those that were destroyed meanwhile
  lock.lock();
  void* const memory = remove(state, data, true);
  give_back(state, memory, current_gpu());
  return answer(memory == nullptr ? cudaErrorInvalidValue : error);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  *total = state.machine.bytes;
  *free = *total - state.gpus[static_cast<std::size_t>(current_gpu())].bytes_in_use;
  return answer(state.enter("cudaMemGetInfo", current_gpu()));
}

cudaError_t cudaMemcpyAsync(void* destination, void const* source, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  auto& state = State::get();
  {
    std::lock_guard const lock{state.mutex};
    stream = state.resolve(stream);
    if (auto const error = state.enter("cudaMemcpyAsync", current_gpu()); error != cudaSuccess) {
      return answer(error);
    }
    bool const known = state.streams.contains(stream) && state.reaches(stream->gpu, destination, bytes) &&
                       state.reaches(stream->gpu, source, bytes);
    if (!known || kind != cudaMemcpyDefault) {
      return answer(cudaErrorInvalidValue);
    }
  }
  return enqueue(stream, [=] { std::memcpy(destination, source, bytes); });
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  auto& state = State::get();
  {
    std::lock_guard const lock{state.mutex};
    stream = state.resolve(stream);
    if (auto const error = state.enter("cudaMemsetAsync", current_gpu()); error != cudaSuccess) {
      return answer(error);
    }
    if (!state.streams.contains(stream) || !state.reaches(stream->gpu, data, bytes)) {
      return answer(cudaErrorInvalidValue);
    }
  }
  return enqueue(stream, [=] { std::memset(data, value, bytes); });
}

cudaError_t cudaMemset2DAsync(void* data, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  auto& state = State::get();
  auto const extent = height == 0 ? 0 : (height - 1) * pitch + width;
  {
    std::lock_guard const lock{state.mutex};
    stream = state.resolve(stream);
    if (auto const error = state.enter("cudaMemset2DAsync", current_gpu()); error != cudaSuccess) {
      return answer(error);
    }
    if (!state.streams.contains(stream) || width > pitch || !state.reaches(stream->gpu, data, extent)) {
      return answer(cudaErrorInvalidValue);
    }
  }
  return enqueue(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memset(static_cast<std::byte*>(data) + row * pitch, value, width);
    }
  });
}

cudaError_t cudaGetLastError() {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  auto const mine = take_last_error();
  auto const of_gpu =
      state.gpus.empty() ? cudaSuccess : state.gpus[static_cast<std::size_t>(current_gpu())].error.load();
  return of_gpu != cudaSuccess ? of_gpu : mine;
}

char const* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorNoKernelImageForDevice: return "cudaErrorNoKernelImageForDevice";
    case cudaErrorIllegalState: return "cudaErrorIllegalState";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureMerge: return "cudaErrorStreamCaptureMerge";
    case cudaErrorStreamCaptureUnmatched: return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureImplicit: return "cudaErrorStreamCaptureImplicit";
    case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
    case cudaErrorStreamCaptureWrongThread: return "cudaErrorStreamCaptureWrongThread";
    default: return "another error";
  }
}

char const* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorNoKernelImageForDevice: return "no kernel image is available for execution on the device";
    case cudaErrorIllegalState: return "the operation cannot be performed in the present state";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge: return "operation would result in a merge of separate capture sequences";
    case cudaErrorStreamCaptureUnmatched: return "capture was not ended in the same stream as it began";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation: return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureImplicit:
      return "operation would make the legacy stream depend on a capturing blocking stream";
    case cudaErrorCapturedEvent: return "operation not permitted on an event last recorded in a capturing stream";
    case cudaErrorStreamCaptureWrongThread:
      return "attempt to terminate a thread-local capture sequence from another thread";
    default: return "an error without a text here";
  }
}

}  // extern "C"
