// SPDX-License-Identifier: Apache-2.0
/// The kernels of the objects of nvcc that this program is linked of.
///
/// Such an object registers, before main(), its fat binary and for each kernel the host function that stands for it.
/// registered.cpp defines what it calls for that, and what it calls to launch a kernel; the PTX in the fat binary is
/// what runs.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

#include "support/ptx/launch.hpp"

namespace zeroth::testing::ptx {

/// Whoever links registered.cpp defines this one: calls `work`, a launch of the kernel that the host function `kernel`
/// stands for, after all that was enqueued on `stream` before, with the memory that the kernel may access there. It
/// throws Fault. The result is that of the launch.
[[nodiscard]] cudaError_t enqueue(cudaStream_t stream, void const* kernel, std::function<void(FindMemory const&)> work);

/// Does the host function stand for a kernel?
[[nodiscard]] bool is_kernel(void const* host);

/// How kernels run that are launched from now on. Set it while no other thread launches.
[[nodiscard]] Behaviour& behaviour();

/// The names of all kernels, and of those that no launch has run to its end yet; readable.
[[nodiscard]] std::vector<std::string> kernel_names();
[[nodiscard]] std::vector<std::string> never_run();

/// The first kernel whose readable name contains `kernel` has another text from now on, or its own again with an
/// `edit` that returns it. Throws std::runtime_error if there is none.
void edit_kernel(std::string const& kernel, std::function<std::string(std::string)> const& edit);

}  // namespace zeroth::testing::ptx
