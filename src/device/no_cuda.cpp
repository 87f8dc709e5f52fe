// SPDX-License-Identifier: Apache-2.0
/// Replaces the CUDA device in builds without CUDA.
#include <fmt/format.h>

#include "device/cuda_gpus.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::device {

bool has_cuda() noexcept { return false; }

int cuda_device_count() noexcept { return 0; }

std::string describe_gpus() { return "none: " + why_no_gpu(); }

std::string why_no_gpu() { return "the library was built without CUDA; configure it with -DZEROTH_ENABLE_CUDA=ON"; }

void set_cuda_allocator(CudaAllocator /*allocator*/) {  // NOLINT(performance-unnecessary-value-param): as with CUDA
  throw ContractError{
      "set_cuda_allocator(): the library was built without CUDA; configure it with -DZEROTH_ENABLE_CUDA=ON"};
}

std::unique_ptr<Device> make_cuda_device(int ordinal, CudaBuffers /*buffers*/) {
  throw ContractError{fmt::format(
      "make_cuda_device({}): the library was built without CUDA; configure it with -DZEROTH_ENABLE_CUDA=ON", ordinal)};
}

}  // namespace zeroth::device
