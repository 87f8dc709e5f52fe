// SPDX-License-Identifier: Apache-2.0
/// The scalars of a step: the sum of block sums, and the decision on the update.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/block.hpp"
#include "device/element_arithmetic.hpp"
#include "optim/step_arithmetic.hpp"

namespace zeroth::cuda {

/// In one block: its threads are the lanes of the sum.
struct Collect {
  static constexpr int threads = device::collect_lanes;
  struct Shared {
    double lane[threads];
  };

  float const* block_sums;
  std::int64_t block_count;
  optim::StepSums host;
  optim::StepSums* contribution;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    block.phase([&](int thread) {
      double sum = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 8
#endif
      for (std::int64_t i = thread; i < block_count; i += threads) {
        sum += static_cast<double>(block_sums[i]);
      }
      shared.lane[thread] = sum;
    });
    device::fold_halves(threads, [&](int half) {
      block.phase([&](int thread) {
        if (thread < half) {
          shared.lane[thread] += shared.lane[thread + half];
        }
      });
    });
    block.phase([&](int thread) {
      if (thread == 0) {
        *contribution = host;
        contribution->sum_of_squares = shared.lane[0];
      }
    });
  }
};

/// In one thread.
struct AddLoss {
  static constexpr int threads = warp_threads;
  struct Shared {};

  optim::LossTerm term;
  optim::StepSums* contribution;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.alone([&](int thread) {
      if (thread == 0) {
        contribution->loss = device::add_weighted(contribution->loss, *term.mean, term.weight);
      }
    });
  }
};

/// In one thread.
struct Advance {
  static constexpr int threads = warp_threads;
  struct Shared {};

  optim::StepRules rules;
  optim::StepSums const* total;
  optim::StepScalars* scalars;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.alone([&](int thread) {
      if (thread == 0) {
        optim::arithmetic::advance(rules, *total, *scalars);
      }
    });
  }
};

template <class Launch>
[[nodiscard]] cudaError_t launch_collect(Launch const& launch, Collect const& body) {
  return launch(body, 1);
}

template <class Launch>
[[nodiscard]] cudaError_t launch_add_loss(Launch const& launch, AddLoss const& body) {
  return launch(body, 1);
}

template <class Launch>
[[nodiscard]] cudaError_t launch_advance(Launch const& launch, Advance const& body) {
  return launch(body, 1);
}

}  // namespace zeroth::cuda
