/// Kernels run as work of streams.
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/launch.hpp"
#include "support/emulated_launch.hpp"
#include "support/fake_cuda/machine.hpp"

namespace zeroth::testing {
namespace {

using fake_cuda::State;

/// CUDA loads a kernel when it is launched first, and may wait for the work of the GPU then. Here for that of the
/// calling thread: ranks that are threads of a test are processes in life.
void load(std::type_index kernel, int gpu) {
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

cudaError_t enqueue(cudaStream_t stream, std::type_index kernel, std::function<void()> work) {
  auto& state = State::get();
  {
    std::lock_guard const lock{state.mutex};
    stream = state.resolve(stream);
    if (!state.streams.contains(stream) || stream->gpu != fake_cuda::current_gpu()) {
      return fake_cuda::answer(cudaErrorInvalidResourceHandle);
    }
  }
  load(kernel, stream->gpu);
  return fake_cuda::enqueue(stream, std::move(work));
}

bool reaches(cudaStream_t stream, void const* data, std::int64_t bytes) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  stream = state.resolve(stream);
  return !state.streams.contains(stream) || state.reaches(stream->gpu, data, static_cast<std::size_t>(bytes));
}

}  // namespace zeroth::testing

namespace zeroth::cuda {

cudaError_t find_kernels() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, nullptr);
}

std::span<int const> capabilities() {
  static constexpr int built_for[] = {80, 90};
  return built_for;
}

}  // namespace zeroth::cuda
