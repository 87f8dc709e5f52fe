/// LayerNorm: a warp has a row.
#pragma once
#include <cmath>

#include "gpu/kernels/columns.hpp"

namespace gpt::gpu {

using zeroth::cuda::PerThread;
using zeroth::cuda::warp_threads;

struct Plus {
  ZEROTH_DEVICE float operator()(float a, float b) const { return a + b; }
};

/// Rows in groups, a warp each: `group(first_row)` for the groups of a block.
template <int warps, class Block, class F>
ZEROTH_DEVICE void each_row_group(Block& block, std::int64_t rows, F const& group) {
  for (std::int64_t first = block.index() * warps; first < rows; first += block.count() * warps) {
    group(first);
  }
}

template <Element T>
struct LayerNormForward {
  static constexpr int threads = 128, warps = threads / warp_threads;
  static constexpr float epsilon = 1e-5F;
  struct Shared {
    float mean[warps], rstd[warps];
  };

  T const *x, *weight, *bias;
  std::int64_t rows, columns;
  float *mean, *rstd;
  T* y;

  [[nodiscard]] std::int64_t work() const { return (rows + warps - 1) / warps; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    each_row_group<warps>(block, rows, [&](std::int64_t first) {
      PerThread<float, Block> sum;
      each(block, first, [&](int thread, std::int64_t row) {
        sum[thread] = 0;
        for (std::int64_t c = thread % warp_threads; c < columns; c += warp_threads) {
          sum[thread] += to_float(x[row * columns + c]);
        }
      });
      block.fold_warps(sum, Plus{});
      each(block, first, [&](int thread, std::int64_t row) {
        if (thread % warp_threads == 0) {
          mean[row] = shared.mean[thread / warp_threads] = sum[thread] / static_cast<float>(columns);
        }
      });
      each(block, first, [&](int thread, std::int64_t row) {
        float const middle = shared.mean[thread / warp_threads];
        sum[thread] = 0;
        for (std::int64_t c = thread % warp_threads; c < columns; c += warp_threads) {
          float const difference = to_float(x[row * columns + c]) - middle;
          sum[thread] += difference * difference;
        }
      });
      block.fold_warps(sum, Plus{});
      each(block, first, [&](int thread, std::int64_t row) {
        if (thread % warp_threads == 0) {
          rstd[row] = shared.rstd[thread / warp_threads] =
              1 / std::sqrt(sum[thread] / static_cast<float>(columns) + epsilon);
        }
      });
      each(block, first, [&](int thread, std::int64_t row) {
        int const warp = thread / warp_threads;
        for (std::int64_t c = thread % warp_threads; c < columns; c += warp_threads) {
          float const normal = (to_float(x[row * columns + c]) - shared.mean[warp]) * shared.rstd[warp];
          y[row * columns + c] = from_float<T>(normal * to_float(weight[c]) + to_float(bias[c]));
        }
      });
    });
  }

 private:
  /// A phase in which each thread has a row of the group. All values of a warp are 0 if it has none.
  template <class Block, class F>
  ZEROTH_DEVICE void each(Block& block, std::int64_t first, F const& function) const {
    block.phase([&](int thread) {
      std::int64_t const row = first + thread / warp_threads;
      if (row < rows) {
        function(thread, row);
      }
    });
  }
};

/// The output once more, from what forward kept.
template <Element T>
struct LayerNormAgain {
  static constexpr int threads = 128;
  struct Shared {};

  T const *x, *weight, *bias;
  std::int64_t rows, columns;
  float const *mean, *rstd;
  T* y;

  [[nodiscard]] std::int64_t work() const { return rows; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.phase([&](int thread) {
      for (std::int64_t row = block.index(); row < rows; row += block.count()) {
        for (std::int64_t c = thread; c < columns; c += threads) {
          float const normal = (to_float(x[row * columns + c]) - mean[row]) * rstd[row];
          y[row * columns + c] = from_float<T>(normal * to_float(weight[c]) + to_float(bias[c]));
        }
      }
    });
  }
};

/// Adds to `dx`.
template <Element T>
struct LayerNormBackward {
  static constexpr int threads = 128, warps = threads / warp_threads;
  struct Shared {
    float mean[warps], along[warps];
  };

  T const *x, *dy, *weight;
  float const *mean, *rstd;
  std::int64_t rows, columns;
  T* dx;

  [[nodiscard]] std::int64_t work() const { return (rows + warps - 1) / warps; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    each_row_group<warps>(block, rows, [&](std::int64_t first) {
      PerThread<float, Block> sum;
      PerThread<float, Block> along;
      block.phase([&](int thread) {
        sum[thread] = 0;
        along[thread] = 0;
        each_column(first, thread, [&](std::int64_t /*at*/, float normal, float dnormal) {
          sum[thread] += dnormal;
          along[thread] += dnormal * normal;
        });
      });
      block.fold_warps(sum, Plus{});
      block.fold_warps(along, Plus{});
      block.phase([&](int thread) {
        if (thread % warp_threads == 0) {
          shared.mean[thread / warp_threads] = sum[thread] / static_cast<float>(columns);
          shared.along[thread / warp_threads] = along[thread] / static_cast<float>(columns);
        }
      });
      block.phase([&](int thread) {
        int const warp = thread / warp_threads;
        each_column(first, thread, [&](std::int64_t at, float normal, float dnormal) {
          float const change = (dnormal - shared.mean[warp] - normal * shared.along[warp]) * rstd[first + warp];
          dx[at] = from_float<T>(to_float(dx[at]) + change);
        });
      });
    });
  }

 private:
  template <class F>
  ZEROTH_DEVICE void each_column(std::int64_t first, int thread, F const& function) const {
    std::int64_t const row = first + thread / warp_threads;
    if (row >= rows) {
      return;
    }
    for (std::int64_t c = thread % warp_threads; c < columns; c += warp_threads) {
      std::int64_t const at = row * columns + c;
      function(at, (to_float(x[at]) - mean[row]) * rstd[row], to_float(dy[at]) * to_float(weight[c]));
    }
  }
};

/// Of which ChunkSums makes the gradients of weight and bias.
template <Element T>
struct LayerNormTerms {
  static constexpr int count = 2;
  T const *x, *dy;
  float const *mean, *rstd;
  std::int64_t columns;
  ZEROTH_DEVICE void operator()(std::int64_t row, std::int64_t column, float* sums) const {
    float const d = to_float(dy[row * columns + column]);
    sums[0] += d * ((to_float(x[row * columns + column]) - mean[row]) * rstd[row]);
    sums[1] += d;
  }
};

}  // namespace gpt::gpu
