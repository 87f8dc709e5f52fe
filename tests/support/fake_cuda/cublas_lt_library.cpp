// SPDX-License-Identifier: Apache-2.0
/// Replaces src/device/cublas_lt.cpp by the functions that are linked in.
#include "device/cublas_lt_library.hpp"

#include <atomic>

#include "support/fake_cuda/cublas_lt.hpp"

namespace zeroth {
namespace {

std::atomic<bool> installed{true};

}  // namespace

void testing::fake_cuda::install_cublas_lt(bool is_there) { installed = is_there; }

namespace device {

CublasLt const& cublas_lt() {
#define ZEROTH_CUBLAS_LT_LINKED(name, function) &::function,
  static CublasLt const linked{ZEROTH_CUBLAS_LT_FUNCTIONS(ZEROTH_CUBLAS_LT_LINKED)};
#undef ZEROTH_CUBLAS_LT_LINKED
  if (!installed) {
    static_cast<void>(load_cublas_lt({"libcublasLt_that_nobody_has.so.13"}));  // throws
  }
  return linked;
}

}  // namespace device
}  // namespace zeroth
