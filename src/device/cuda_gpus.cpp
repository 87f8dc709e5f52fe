// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_gpus.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

#include "device/cuda_call.hpp"
#include "device/cuda_launch.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::device {
namespace {

/// Formats CUDA's version numbers: "12.4" for 12040.
std::string describe_cuda(int code) { return fmt::format("{}.{}", code / 1000, code / 10 % 100); }

/// Formats a compute capability, given as 10 * major + minor.
std::string describe_capability(int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }

/// The oldest driver that supports the CUDA of this build, if known.
constexpr char const* oldest_driver() {
  switch (CUDART_VERSION / 1000) {
    case 12: return ", which needs driver 525 or newer";
    case 13: return ", which needs driver 580 or newer";
    default: return "";
  }
}

/// CUDA reports a missing driver as one that is too old.
std::string explain_driver() {
  int known = 0;
  static_cast<void>(cudaDriverGetVersion(&known));
  auto const needed =
      fmt::format("the library was built with CUDA {}{}", describe_cuda(CUDART_VERSION), oldest_driver());
  return known == 0 ? fmt::format("no driver was found (libcuda.so.1); {}", needed)
                    : fmt::format("the driver knows CUDA up to {}, and {}", describe_cuda(known), needed);
}

int capability_of(int ordinal) {
  int major = 0;
  int minor = 0;
  for (auto const& [value, attribute] :
       {std::pair{&major, cudaDevAttrComputeCapabilityMajor}, std::pair{&minor, cudaDevAttrComputeCapabilityMinor}}) {
    if (auto const error = cudaDeviceGetAttribute(value, attribute, ordinal); error != cudaSuccess) {
      throw SystemError{describe_call("cudaDeviceGetAttribute", ordinal, error)};
    }
  }
  return 10 * major + minor;
}

}  // namespace

bool has_cuda() noexcept { return true; }

int cuda_device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return count;
}

std::string why_no_gpu() {
  int count = 0;
  auto const error = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  if (error == cudaSuccess && count > 0) {
    return {};
  }
  constexpr char const* if_hidden = "check nvidia-smi and CUDA_VISIBLE_DEVICES";
  if (error == cudaSuccess) {
    return if_hidden;
  }
  return fmt::format("cudaGetDeviceCount: {} ({}): {}", cudaGetErrorString(error), cudaGetErrorName(error),
                     error == cudaErrorInsufficientDriver ? explain_driver() : if_hidden);
}

std::string describe_gpus() {
  int const count = cuda_device_count();
  if (count == 0) {
    return "none: " + why_no_gpu();
  }
  std::map<std::string, int> count_of;  // keyed by compute capability
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    try {
      ++count_of[describe_capability(capability_of(ordinal))];
    } catch (SystemError const& error) {
      ++count_of[error.what()];
    }
  }
  std::vector<std::string> kinds;
  for (auto const& [capability, gpus] : count_of) {
    kinds.push_back(fmt::format("{} of compute capability {}", gpus, capability));
  }
  int known = 0;
  static_cast<void>(cudaDriverGetVersion(&known));
  return fmt::format("{}; the driver knows CUDA up to {}, the library was built with {}", fmt::join(kinds, ", "),
                     describe_cuda(known), describe_cuda(CUDART_VERSION));
}

void expect_kernels(int ordinal) {
  auto const error = cuda::find_kernels();
  if (error == cudaSuccess) {
    return;
  }
  static_cast<void>(cudaGetLastError());
  std::vector<std::string> built_for;
  for (int const capability : cuda::capabilities()) {
    built_for.push_back(describe_capability(capability));
  }
  auto const mine = capability_of(ordinal);
  throw SystemError{
      fmt::format("make_cuda_device({0}): cuda:{0} has compute capability {1}, and the library's kernels were built "
                  "for {2}: {3} ({4}); "
                  "configure it with -DCMAKE_CUDA_ARCHITECTURES={5}, or with CUDAARCHS={5} in the environment",
                  ordinal, describe_capability(mine), fmt::join(built_for, ", "), cudaGetErrorString(error),
                  cudaGetErrorName(error), mine)};
}

}  // namespace zeroth::device
