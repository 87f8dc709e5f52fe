/// The functions of cuda/launch.hpp, as definitions that run the kernels' bodies on the host (emulated_launch.cpp). For
/// programs without nvcc and without a GPU.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>

#include "support/block_emulator.hpp"

namespace zeroth::testing {

/// Runs `work` once all that was enqueued on `stream` before has run. Whoever links emulated_launch.cpp defines it.
void enqueue(cudaStream_t stream, std::function<void()> work);

/// How bodies run that are launched from now on. Set it while no other thread launches.
[[nodiscard]] Emulation& emulation();

}  // namespace zeroth::testing
