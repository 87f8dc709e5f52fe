// SPDX-License-Identifier: Apache-2.0
#include "device/nccl_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>

#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

struct Close {
  void operator()(void* library) const noexcept { static_cast<void>(::dlclose(library)); }
};
using Library = std::unique_ptr<void, Close>;

/// Returns false if `library` lacks the function.
template <class Function>
bool find(Function& function, void* library, char const* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// Loads the functions into `nccl`. Returns the reason why `library` does not suit, or an empty string.
std::string take_functions(void* library, Nccl& nccl) {
  decltype(&::ncclGetVersion) get_version = nullptr;
  int version = 0;
  if (!find(get_version, library, "ncclGetVersion")) {
    return "it has no ncclGetVersion";
  }
  if (auto const result = get_version(&version); result != ncclSuccess) {
    return fmt::format("ncclGetVersion returned {}", static_cast<int>(result));
  }
  if (auto problem = nccl_version_problem(version); !problem.empty()) {
    return problem;
  }
#define ZEROTH_NCCL_FIND(name, function)      \
  if (!find(nccl.name, library, #function)) { \
    return "it has no " #function;            \
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
  std::string problems;
  for (auto const& file : files) {
    bool const was_there = Library{::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD)} != nullptr;
    Library library{::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)};
    if (library == nullptr) {
      char const* const why = ::dlerror();  // its text names the file
      problems += fmt::format("; {}", why == nullptr ? file : why);
      continue;
    }
    Nccl nccl;
    nccl.was_there = was_there;
    auto const problem = take_functions(library.get(), nccl);
    if (problem.empty()) {
      static_cast<void>(library.release());  // never unloaded, because NCCL has threads
      return nccl;
    }
    problems += fmt::format("; {}: {}", file, problem);
  }
  throw SystemError{
      fmt::format("no usable NCCL was found{}. Install NCCL {} or newer, or name its folder in LD_LIBRARY_PATH",
                  problems, describe_nccl_version(oldest_nccl))};
}

}  // namespace zeroth::device
