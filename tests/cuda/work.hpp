// SPDX-License-Identifier: Apache-2.0
/// Work that tests enqueue on a GPU's stream, without waiting for it.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "support/noise.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::testing {

/// One sample's contribution to the gradient of one element.
ZEROTH_HOST_DEVICE inline float contribution(float old, float seed, float value, std::int64_t sample, std::int64_t i) {
  return old + seed * (0.1F * value + 0.2F * noise(sample, i));
}

/// Adds to `gradient`, or with beta 0 writes, what a sample contributes for each of `count` parameters.
template <class T, class G>
struct Contribution {
  T const* parameter;
  G* gradient;
  std::int64_t count;
  float beta, seed;
  std::int64_t sample;

  ZEROTH_HOST_DEVICE void at(std::int64_t i) const {
    float const old = beta == 0 ? 0.0F : to_float(gradient[i]);
    gradient[i] = from_float<G>(contribution(old, seed, to_float(parameter[i]), sample, i));
  }
};

#ifdef ZEROTH_ON_GPU
/// Defined for every pair of a parameter's and a gradient's type.
template <class T, class G>
cudaError_t enqueue(cudaStream_t stream, Contribution<T, G> const& work);
/// Blocks the stream until `*open`, in host memory that the GPU reads, is not 0; at most 60 s.
cudaError_t enqueue_gate(cudaStream_t stream, int const* open);
#endif

}  // namespace zeroth::testing
