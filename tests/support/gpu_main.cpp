/// main() for tests that need a GPU, or ZEROTH_FEWEST_GPUS of them: without, they are skipped (exit status 77, which
/// ctest shows), never passed. A source of such a program, instead of catch_main.cpp.
#define CATCH_CONFIG_RUNNER
#include <cuda_runtime_api.h>

#include <iostream>

#include "support/catch.hpp"

#ifndef ZEROTH_FEWEST_GPUS
#define ZEROTH_FEWEST_GPUS 1
#endif

int main(int argument_count, char** arguments) {
  int devices = 0;
  cudaError_t const error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) {
    std::cout << "skipped: no GPU (" << cudaGetErrorString(error) << ")\n";
    return 77;
  }
  if (devices < ZEROTH_FEWEST_GPUS) {
    std::cout << "skipped: needs " << ZEROTH_FEWEST_GPUS << " GPUs, and " << devices << " are there\n";
    return 77;
  }
  return Catch::Session().run(argument_count, arguments);
}
