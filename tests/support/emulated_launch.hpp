// SPDX-License-Identifier: Apache-2.0
/// Definitions of the functions of device/cuda_launch.hpp that run the kernels' bodies on the host
/// (emulated_launch.cpp). For programs without nvcc and without a GPU.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <typeindex>

#include "support/block_emulator.hpp"

namespace zeroth::testing {

// Programs that link emulated_launch.cpp define these two.

/// Runs `work`, a kernel whose body is of type `kernel`, once all earlier work on `stream` has run. Returns the result
/// of the launch.
[[nodiscard]] cudaError_t enqueue(cudaStream_t stream, std::type_index kernel, std::function<void()> work);
/// Whether a kernel on `stream` may access these bytes.
[[nodiscard]] bool reaches(cudaStream_t stream, void const* data, std::int64_t bytes);

/// Controls how later launches run. Set it while no other thread launches.
[[nodiscard]] Emulation& emulation();

}  // namespace zeroth::testing
