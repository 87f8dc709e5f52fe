// SPDX-License-Identifier: Apache-2.0
#include "gpu/cudnn_library.hpp"

#include <fmt/format.h>

#include "device/load_library.hpp"
#include "zeroth/core/error.hpp"

namespace gpt::gpu {
namespace {

using zeroth::device::find_function;

/// Loads the functions into `cudnn`. Returns the reason why `library` does not suit, or an empty string.
std::string take_functions(void* library, Cudnn& cudnn) {
  decltype(&::cudnnGetVersion) get_version = nullptr;
  if (!find_function(get_version, library, "cudnnGetVersion")) {
    return "it has no cudnnGetVersion";
  }
  cudnn.version = get_version();
  if (cudnn.version < least_cudnn) {
    return fmt::format("libcudnn is version {}, but {} is the oldest supported (built with {})",
                       describe_cudnn_version(cudnn.version), describe_cudnn_version(least_cudnn),
                       describe_cudnn_version(CUDNN_VERSION));
  }
  cudnn.library = library;
  auto const find = [&](auto& function, char const* name) {
    return find_function(function, library, name) ? std::string{} : fmt::format("it has no {}", name);
  };
  for (auto const& problem :
       {find(cudnn.create, "cudnnCreate"), find(cudnn.destroy, "cudnnDestroy"),
        find(cudnn.set_stream, "cudnnSetStream"), find(cudnn.error_string, "cudnnGetErrorString")}) {
    if (!problem.empty()) {
      return problem;
    }
  }
  return {};
}

}  // namespace

std::string describe_cudnn_version(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

Cudnn load_cudnn(std::vector<std::string> const& files) {
  Cudnn cudnn;
  auto const problems = zeroth::device::load_first(
      files, [&](void* library, bool /*was_there*/) { return take_functions(library, cudnn); });
  if (!problems.empty()) {
    throw zeroth::SystemError{
        fmt::format("--attention cudnn: no usable cuDNN was found{}. Install cuDNN {} or newer (pip install "
                    "nvidia-cudnn-cu{}), or name its folder in LD_LIBRARY_PATH; --attention own needs none",
                    problems, describe_cudnn_version(least_cudnn), CUDART_VERSION / 1000)};
  }
  return cudnn;
}

}  // namespace gpt::gpu
