// SPDX-License-Identifier: Apache-2.0
#include "device/nccl_library.hpp"

#include <fmt/format.h>

#include "device/load_library.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

/// Loads the functions into `nccl`. Returns the reason why `library` does not suit, or an empty string.
std::string take_functions(void* library, Nccl& nccl) {
  decltype(&::ncclGetVersion) get_version = nullptr;
  int version = 0;
  if (!find_function(get_version, library, "ncclGetVersion")) {
    return "it has no ncclGetVersion";
  }
  if (auto const result = get_version(&version); result != ncclSuccess) {
    return fmt::format("ncclGetVersion returned {}", static_cast<int>(result));
  }
  if (auto problem = nccl_version_problem(version); !problem.empty()) {
    return problem;
  }
#define ZEROTH_NCCL_FIND(name, function)               \
  if (!find_function(nccl.name, library, #function)) { \
    return "it has no " #function;                     \
  }
  ZEROTH_NCCL_FUNCTIONS(ZEROTH_NCCL_FIND)
#undef ZEROTH_NCCL_FIND
  nccl.version = version;
  return {};
}

}  // namespace

std::string describe_nccl_version(int version) {
  return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

std::string nccl_version_problem(int version) {
  return version >= oldest_nccl ? std::string{}
                                : fmt::format("libnccl is version {}, but {} is the oldest supported (built with {})",
                                              describe_nccl_version(version), describe_nccl_version(oldest_nccl),
                                              describe_nccl_version(NCCL_VERSION_CODE));
}

Nccl load_nccl(std::vector<std::string> const& files) {
  Nccl nccl;
  auto const problems = load_first(files, [&](void* library, bool was_there) {
    nccl = {};
    nccl.was_there = was_there;
    return take_functions(library, nccl);
  });
  if (!problems.empty()) {
    throw SystemError{
        fmt::format("no usable NCCL was found{}. Install NCCL {} or newer, or name its folder in LD_LIBRARY_PATH",
                    problems, describe_nccl_version(oldest_nccl))};
  }
  return nccl;
}

}  // namespace zeroth::device
