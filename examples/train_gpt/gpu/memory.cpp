#include "gpu/memory.hpp"

#include <fmt/format.h>

#include "zeroth/core/error.hpp"

namespace gpt::gpu {

void expect(cudaError_t error, char const* call) {
  if (error != cudaSuccess) {
    throw zeroth::SystemError{fmt::format("{}: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error))};
  }
}

}  // namespace gpt::gpu
