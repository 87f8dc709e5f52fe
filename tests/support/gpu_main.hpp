/// main() for tests that need a GPU: without one they are skipped (exit status 77, which ctest shows), never passed.
/// Included by one source of such a program, which then needs no other main().
#pragma once
#include <cuda_runtime_api.h>

#include <iostream>

#define CATCH_CONFIG_RUNNER
#include "support/catch.hpp"

int main(int argument_count, char** arguments) {
  int devices = 0;
  cudaError_t const error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    std::cout << "skipped: no GPU ("
              << (error == cudaSuccess ? "cudaGetDeviceCount gives none" : cudaGetErrorString(error)) << ")\n";
    return 77;
  }
  return Catch::Session().run(argument_count, arguments);
}
