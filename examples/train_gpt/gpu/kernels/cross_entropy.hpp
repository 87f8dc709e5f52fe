/// The loss over rows of fp32 logits: forward keeps one number per row, backward makes the gradient in one pass.
#pragma once
#include <cmath>

#include "gpu/kernels/layer_norm.hpp"

namespace gpt::gpu {

struct Largest {
  ZEROTH_DEVICE float operator()(float a, float b) const { return std::fmax(a, b); }
};

/// A warp has a row.
struct CrossEntropy {
  static constexpr int threads = 128, warps = threads / warp_threads;
  struct Shared {
    float largest[warps];
  };

  float const* logits;  // [rows, vocabulary]
  std::int32_t const* targets;
  std::int64_t rows, vocabulary;
  float *log_sums, *losses;  // [rows]

  [[nodiscard]] std::int64_t work() const { return (rows + warps - 1) / warps; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    each_row_group<warps>(block, rows, [&](std::int64_t first) {
      PerThread<float, Block> value;
      block.phase([&](int thread) {
        value[thread] = -INFINITY;
        each_logit(first, thread, [&](float logit) { value[thread] = logit > value[thread] ? logit : value[thread]; });
      });
      block.fold_warps(value, Largest{});
      block.phase([&](int thread) {
        if (thread % warp_threads == 0) {
          shared.largest[thread / warp_threads] = value[thread];
        }
      });
      block.phase([&](int thread) {
        float const largest = shared.largest[thread / warp_threads];
        value[thread] = 0;
        each_logit(first, thread, [&](float logit) { value[thread] += std::exp(logit - largest); });
      });
      block.fold_warps(value, Plus{});
      block.phase([&](int thread) {
        std::int64_t const row = first + thread / warp_threads;
        if (thread % warp_threads == 0 && row < rows) {
          float const largest = shared.largest[thread / warp_threads];
          float const log_sum = std::log(value[thread]);
          log_sums[row] = largest + log_sum;
          losses[row] = log_sum - (logits[row * vocabulary + targets[row]] - largest);
        }
      });
    });
  }

 private:
  template <class F>
  ZEROTH_DEVICE void each_logit(std::int64_t first, int thread, F const& function) const {
    std::int64_t const row = first + thread / warp_threads;
    if (row >= rows) {
      return;
    }
    for (std::int64_t v = thread % warp_threads; v < vocabulary; v += warp_threads) {
      function(logits[row * vocabulary + v]);
    }
  }
};

/// In one block, in fp64.
struct MeanLoss {
  static constexpr int threads = 256;
  struct Shared {
    double sum[threads];
  };

  float const* losses;
  std::int64_t rows;
  float* mean;

  [[nodiscard]] std::int64_t work() const { return 1; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    block.phase([&](int thread) {
      double sum = 0;
      for (std::int64_t i = thread; i < rows; i += threads) {
        sum += static_cast<double>(losses[i]);
      }
      shared.sum[thread] = sum;
    });
    for (int half = threads / 2; half > 0; half /= 2) {
      block.phase([&](int thread) {
        if (thread < half) {
          shared.sum[thread] += shared.sum[thread + half];
        }
      });
    }
    block.phase([&](int thread) {
      if (thread == 0) {
        *mean = static_cast<float>(shared.sum[0] / static_cast<double>(rows));
      }
    });
  }
};

/// dlogits = (softmax - one at the target) * each
template <Element T>
struct CrossEntropyBackward {
  static constexpr int threads = 256;
  struct Shared {};

  float const* logits;
  std::int32_t const* targets;
  float const* log_sums;
  std::int64_t rows, vocabulary;
  float each;
  T* dlogits;

  [[nodiscard]] std::int64_t work() const { return rows; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.phase([&](int thread) {
      for (std::int64_t row = block.index(); row < rows; row += block.count()) {
        for (std::int64_t v = thread; v < vocabulary; v += threads) {
          float const probability = std::exp(logits[row * vocabulary + v] - log_sums[row]);
          dlogits[row * vocabulary + v] = from_float<T>((probability - (v == targets[row] ? 1.0F : 0.0F)) * each);
        }
      }
    });
  }
};

}  // namespace gpt::gpu
