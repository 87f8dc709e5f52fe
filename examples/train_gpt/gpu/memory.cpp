// SPDX-License-Identifier: Apache-2.0
#include "gpu/memory.hpp"

#include <fmt/format.h>

#include "zeroth/core/error.hpp"

namespace gpt::gpu {

void expect(cudaError_t error, char const* call) {
  if (error != cudaSuccess) {
    throw zeroth::SystemError{
        fmt::format("found in {}: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error))};
  }
}

void* DeviceMemory::take(std::int64_t bytes) {
  void* data = nullptr;
  if (auto const error = cudaMalloc(&data, static_cast<std::size_t>(bytes)); error != cudaSuccess) {
    expect(error, fmt::format("cudaMalloc of {} bytes for activations", bytes).c_str());
  }
  return data;
}

void* take_pinned(std::int64_t bytes) {
  void* data = nullptr;
  if (auto const error = cudaHostAlloc(&data, static_cast<std::size_t>(bytes), cudaHostAllocDefault);
      error != cudaSuccess) {
    expect(error, fmt::format("cudaHostAlloc of {} bytes", bytes).c_str());
  }
  return data;
}

}  // namespace gpt::gpu
