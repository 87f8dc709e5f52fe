// SPDX-License-Identifier: Apache-2.0
/// Kernels compiled for the host.
#include <mutex>
#include <utility>

#include "device/cuda_launch.hpp"
#include "support/emulated_launch.hpp"
#include "support/fake_cuda/machine.hpp"

namespace zeroth::testing {

using fake_cuda::State;

cudaError_t enqueue(cudaStream_t stream, std::type_index kernel, std::function<void()> work) {
  return fake_cuda::launch(stream, kernel.name(), std::move(work));
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
