// SPDX-License-Identifier: Apache-2.0
/// Functions of the CUDA runtime that benchmarks call and the library does not: those that block the host, and short
/// forms of others. Only benchmarks link them.
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "support/fake_cuda/machine.hpp"

using zeroth::testing::fake_cuda::answer;
using zeroth::testing::fake_cuda::current_gpu;
using zeroth::testing::fake_cuda::State;

extern "C" {

cudaError_t cudaDeviceSynchronize() {
  auto& state = State::get();
  std::vector<std::shared_ptr<CUstream_st>> streams;
  {
    std::lock_guard const lock{state.mutex};
    for (auto const& [handle, stream] : state.streams) {
      streams.push_back(stream);
    }
  }
  for (auto const& stream : streams) {
    stream->drain();
  }
  std::lock_guard const lock{state.mutex};
  return answer(state.enter("cudaDeviceSynchronize", current_gpu()));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  auto passed = cudaEventQuery(event);
  for (; passed == cudaErrorNotReady; passed = cudaEventQuery(event)) {
    std::this_thread::yield();
  }
  return passed;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind /*kind*/) {
  auto const error = cudaDeviceSynchronize();
  std::memcpy(to, from, bytes);
  return error;
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  auto const error = cudaDeviceSynchronize();
  std::memset(to, value, bytes);
  return error;
}

}  // extern "C"
