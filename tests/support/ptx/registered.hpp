// SPDX-License-Identifier: Apache-2.0
/// The kernels in this program's objects from nvcc.
///
/// Before main(), such an object registers its fat binary, and for each kernel the host function that stands for it.
/// registered.cpp defines the functions that it calls for that, and those that launch a kernel; what runs is the PTX in
/// the fat binary.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/ptx/launch.hpp"

namespace zeroth::testing::ptx {

/// Programs that link registered.cpp define this function. It calls `work`, a launch of the kernel that the host
/// function `kernel` stands for, after all earlier work on `stream`, with the memory that the kernel may access there.
/// `work` throws Fault. Returns the result of the launch.
[[nodiscard]] cudaError_t enqueue(cudaStream_t stream, void const* kernel, std::function<void(FindMemory const&)> work);

/// Whether the host function stands for a kernel.
[[nodiscard]] bool is_kernel(void const* host);

/// Controls how later launches run. Set it while no other thread launches.
[[nodiscard]] Behaviour& behaviour();

/// The readable names of all kernels, and of those that no launch has completed yet.
[[nodiscard]] std::vector<std::string> kernel_names();
/// "sm_100": the architecture whose PTX runs, by ZEROTH_PTX_ARCHITECTURE, or sm_80. The program's objects have all.
[[nodiscard]] std::string const& architecture();
[[nodiscard]] std::vector<std::string> never_run();

/// The cost of each kernel's memory accesses, in all launches that completed, by readable name.
[[nodiscard]] std::map<std::string, Traffic> traffic();

/// Changes the text of the first kernel whose readable name contains `kernel` by `edit`; an `edit` that returns its
/// argument restores it. Throws std::runtime_error if there is none.
void edit_kernel(std::string const& kernel, std::function<std::string(std::string)> const& edit);

}  // namespace zeroth::testing::ptx
