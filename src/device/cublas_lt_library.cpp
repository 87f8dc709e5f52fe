// SPDX-License-Identifier: Apache-2.0
#include "device/cublas_lt_library.hpp"

#include <fmt/format.h>

#include "device/load_library.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

/// Loads the functions into `lt`. Returns the reason why `library` does not suit, or an empty string.
std::string take_functions(void* library, CublasLt& lt) {
#define ZEROTH_CUBLAS_LT_FIND(name, function)        \
  if (!find_function(lt.name, library, #function)) { \
    return "it has no " #function;                   \
  }
  ZEROTH_CUBLAS_LT_FUNCTIONS(ZEROTH_CUBLAS_LT_FIND)
#undef ZEROTH_CUBLAS_LT_FIND
  return {};
}

}  // namespace

CublasLt load_cublas_lt(std::vector<std::string> const& files) {
  CublasLt lt;
  auto const problems =
      load_first(files, [&](void* library, bool /*was_there*/) { return take_functions(library, lt); });
  if (!problems.empty()) {
    throw SystemError{
        fmt::format("Muon needs cuBLASLt on GPUs, and none was found{}. Install cuBLAS of CUDA {}, or name its folder "
                    "in LD_LIBRARY_PATH",
                    problems, CUBLAS_VER_MAJOR)};
  }
  return lt;
}

}  // namespace zeroth::device
