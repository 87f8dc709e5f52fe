// SPDX-License-Identifier: Apache-2.0
/// main() for tests that need a GPU, or as many as the environment variable ZEROTH_FEWEST_GPUS says. Without them the
/// tests are skipped (exit status 77, which ctest shows), never passed.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "support/catch_runner.hpp"

int main(int argument_count, char** arguments) {
  int devices = 0;
  cudaError_t const error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) {
    std::cout << "skipped: no GPU (" << cudaGetErrorString(error) << ")\n";
    return 77;
  }
  char const* const wanted = std::getenv("ZEROTH_FEWEST_GPUS");
  int const fewest = wanted == nullptr ? 1 : std::stoi(wanted);
  if (devices < fewest) {
    std::cout << "skipped: needs " << fewest << " GPUs, and " << devices << " are there\n";
    return 77;
  }
  return zeroth::testing::run_cases(argument_count, arguments);
}
