/// main() for tests that need a GPU: without one they are skipped (exit status 77, which ctest shows), never passed.
/// A source of such a program, instead of catch_main.cpp.
#define CATCH_CONFIG_RUNNER
#include <cuda_runtime_api.h>

#include <iostream>

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
