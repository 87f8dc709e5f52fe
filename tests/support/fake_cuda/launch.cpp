// SPDX-License-Identifier: Apache-2.0
/// Runs kernels as work of streams.
#include <mutex>
#include <utility>
#include <vector>

#include "support/fake_cuda/machine.hpp"

namespace zeroth::testing::fake_cuda {
namespace {

/// CUDA loads a kernel at its first launch, and may then wait for the GPU's work. This waits only for work of the
/// calling thread, because ranks that are threads in a test are processes in reality.
void load(std::string const& kernel, int gpu) {
  auto& state = State::get();
  std::vector<std::shared_ptr<CUstream_st>> busy;
  {
    std::lock_guard const lock{state.mutex};
    if (!state.loaded.emplace(gpu, kernel).second) {
      return;
    }
    ++state.calls["load"];
    for (auto const& [handle, stream] : state.streams) {
      if (stream->gpu == gpu && stream->owner == std::this_thread::get_id()) {
        busy.push_back(stream);
      }
    }
  }
  for (auto const& stream : busy) {
    stream->drain();
  }
}

}  // namespace

cudaError_t launch(cudaStream_t stream, std::string const& kernel, std::function<void()> work) {
  auto& state = State::get();
  {
    std::lock_guard const lock{state.mutex};
    stream = state.resolve(stream);
    if (!state.streams.contains(stream) || stream->gpu != current_gpu()) {
      return answer(cudaErrorInvalidResourceHandle);
    }
  }
  load(kernel, stream->gpu);
  return enqueue(stream, std::move(work));
}

}  // namespace zeroth::testing::fake_cuda
