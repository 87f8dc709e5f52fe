// SPDX-License-Identifier: Apache-2.0
/// The scalars of a step: the sum of block sums, and the decision on the update.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/block.hpp"
#include "device/element_arithmetic.hpp"
#include "optim/step_arithmetic.hpp"

namespace zeroth::cuda {

/// Runs in one block. It adds integers, so the order of threads does not matter.
struct Collect {
  static constexpr int threads = 512;
  static constexpr int words = device::exact_words;
  static constexpr int most_at_once = 256;  // parts of 55 bits that fit into the sum of a word
  struct Shared {
    std::uint64_t part[words][threads];  // a thread's, since the last carry
    float nonfinite[threads];            // 0, or the sum of the non-finite values
    optim::ExactSum sum;
  };

  float const* block_sums;
  std::int64_t block_count;
  optim::ExactSum* sum;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    block.phase([&](int thread) {
      shared.nonfinite[thread] = 0;
      if (thread == 0) {
        shared.sum = {};
      }
    });
    for (std::int64_t first = 0; first < block_count; first += std::int64_t{most_at_once} * threads) {
      std::int64_t const left = block_count - first;
      add(block, shared, first, first + (left < std::int64_t{most_at_once} * threads ? left : most_at_once * threads));
    }
    block.phase([&](int thread) {
      if (thread == 0) {
        for (float const each : shared.nonfinite) {
          if (each != 0) {
            shared.sum.add_nonfinite(static_cast<double>(each));
          }
        }
        *sum = shared.sum;
      }
    });
  }

 private:
  /// Adds block sums [first, end) to the sum.
  template <class Block>
  ZEROTH_DEVICE void add(Block& block, Shared& shared, std::int64_t first, std::int64_t end) const {
    block.phase([&](int thread) {
      for (auto& word : shared.part) {
        word[thread] = 0;
      }
#if defined(__CUDA_ARCH__)
#pragma unroll 8
#endif
      for (std::int64_t i = first + thread; i < end; i += threads) {
        auto const part = device::exact_part(block_sums[i]);
        if (part.finite) {
          shared.part[part.word][thread] += part.bits;
        } else {
          shared.nonfinite[thread] += block_sums[i];
        }
      }
    });
    block.phase([&](int thread) {  // one thread per word, in halves, so that nothing overflows
      if (thread < words) {
        std::uint64_t low = 0, high = 0;
        for (int from = 0; from < threads; ++from) {
          low += shared.part[thread][from] & 0xffffffffU;
          high += shared.part[thread][from] >> 32U;
        }
        shared.part[thread][0] = low;
        shared.part[thread][1] = high;
      }
    });
    block.phase([&](int thread) {
      if (thread == 0) {
        for (int word = 0; word < words; ++word) {
          shared.sum.add_at(word, shared.part[word][0]);
          shared.sum.add_at(word + 1, shared.part[word][1]);
        }
        shared.sum.carry();
      }
    });
  }
};

/// Runs in one thread.
struct AddLoss {
  static constexpr int threads = warp_threads;
  struct Shared {};

  optim::LossTerm term;
  optim::StepSums* contribution;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.alone([&](int thread) {
      if (thread == 0) {
        contribution->loss += term.weight * static_cast<double>(*term.mean);
      }
    });
  }
};

/// Runs in one thread.
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
