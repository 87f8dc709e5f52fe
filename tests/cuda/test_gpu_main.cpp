// SPDX-License-Identifier: Apache-2.0
/// What gpu_main.cpp runs on a machine with two GPUs.
#include <cuda_runtime_api.h>

#include "support/catch.hpp"
#include "support/fake_cuda/fake_cuda.hpp"

namespace zeroth::testing {
namespace {

/// Before main(), which counts the GPUs.
[[maybe_unused]] bool const has_two = [] {
  fake_cuda::reset({.gpus = 2});
  return true;
}();

}  // namespace

TEST_CASE("tests run if there are GPUs enough") {
  int gpus = 0;
  REQUIRE(cudaGetDeviceCount(&gpus) == cudaSuccess);
  CHECK(gpus == 2);
}

}  // namespace zeroth::testing
