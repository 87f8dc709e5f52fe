// SPDX-License-Identifier: Apache-2.0
/// The functions of device/cuda_launch.hpp, as definitions that run the kernels' bodies on the host
/// (emulated_launch.cpp). For programs without nvcc and without a GPU.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <typeindex>

#include "support/block_emulator.hpp"

namespace zeroth::testing {

// Whoever links emulated_launch.cpp defines these two.

/// Runs `work`, a kernel whose body is of type `kernel`, once all that was enqueued on `stream` before has run. The
/// result is that of the launch.
[[nodiscard]] cudaError_t enqueue(cudaStream_t stream, std::type_index kernel, std::function<void()> work);
/// May a kernel on `stream` read and write these bytes?
[[nodiscard]] bool reaches(cudaStream_t stream, void const* data, std::int64_t bytes);

/// How bodies run that are launched from now on. Set it while no other thread launches.
[[nodiscard]] Emulation& emulation();

}  // namespace zeroth::testing
