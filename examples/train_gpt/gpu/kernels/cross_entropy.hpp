// SPDX-License-Identifier: Apache-2.0
/// The loss over rows of fp32 logits. Each of the two passes reads them once: forward keeps two numbers per row, from
/// which backward computes the gradient.
#pragma once
#include <cmath>

#include "cuda/packs.hpp"
#include "gpu/kernels/layer_norm.hpp"
#include "gpu/seed.hpp"

namespace gpt::gpu {

/// Rows with a stride of `stride` elements. Elements between rows are neither read nor written.
template <class T>
struct StridedRows {
  T* data;
  std::int64_t count, width, stride;

  [[nodiscard]] ZEROTH_DEVICE T* operator[](std::int64_t row) const { return data + row * stride; }
};

/// The pack boundaries, if they are the same in every row. Otherwise there are no packs.
template <int pack, class... T>
[[nodiscard]] zeroth::cuda::PackGrid<pack> pack_grid(StridedRows<T> const&... rows) {
  bool const alike = ((rows.stride * std::int64_t{sizeof(T)} % zeroth::cuda::access_bytes == 0) && ...);
  zeroth::cuda::Array const arrays[] = {{rows.data, sizeof(T)}...};
  return alike ? zeroth::cuda::pack_grid<pack>(arrays) : zeroth::cuda::PackGrid<pack>{};
}

struct Largest {
  ZEROTH_DEVICE float operator()(float a, float b) const { return std::fmax(a, b); }
};

template <int warps, class Combine>
[[nodiscard]] ZEROTH_DEVICE float over_warps(float const (&values)[warps], Combine const& combine) {
  float result = values[0];
  for (int warp = 1; warp < warps; ++warp) {
    result = combine(result, values[warp]);
  }
  return result;
}

/// Puts each warp's result into `of_warps`. The next phase may read them.
template <int warps, class Block, class Combine>
ZEROTH_DEVICE void fold_warps(Block& block, PerThread<float, Block>& values, float (&of_warps)[warps],
                              Combine const& combine) {
  block.fold_warps(values, combine);
  block.phase([&](int thread) {
    if (thread % warp_threads == 0) {
      of_warps[thread / warp_threads] = values[thread];
    }
  });
}

/// A block has a row. Each thread keeps the largest of the logits that it has read, and the sum of their exponentials
/// relative to it, which it rescales when a larger logit comes. The order is always the same.
struct CrossEntropy {
  static constexpr int threads = 256, warps = threads / warp_threads;
  static constexpr int resident_blocks = 8;  // bound by memory latency: as many loads in flight as possible
  static constexpr int pack = zeroth::cuda::pack_count<float>;
  struct Shared {
    float largest[warps], sum[warps];
  };

  StridedRows<float const> logits;
  std::int32_t const* targets;
  float *largest, *sums;  // [rows]
  float* losses;          // [rows]
  zeroth::cuda::PackGrid<pack> grid;

  CrossEntropy(StridedRows<float const> const& of, std::int32_t const* at, float* to_largest, float* to_sums,
               float* to_losses)
      : logits{of},
        targets{at},
        largest{to_largest},
        sums{to_sums},
        losses{to_losses},
        grid{gpu::pack_grid<pack>(of)} {}
  [[nodiscard]] std::int64_t work() const { return logits.count; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    PerThread<float, Block> largest_seen;
    PerThread<float, Block> sum;
    PerThread<float, Block> folded;
    for (std::int64_t row = block.index(); row < logits.count; row += block.count()) {
      block.alone([&](int thread) {
        float seen = -INFINITY;
        float total = 0;
        zeroth::cuda::each_pack<threads>(grid, {0, logits.width}, thread, [&](std::int64_t first, auto lanes) {
          add(zeroth::cuda::load<lanes()>(logits[row] + first), seen, total);
        });
        largest_seen[thread] = seen;
        folded[thread] = seen;
        sum[thread] = total;
      });
      fold_warps(block, folded, shared.largest, Largest{});
      block.phase([&](int thread) {
        // A thread without logits has minus infinity, so it contributes 0.
        sum[thread] *= std::exp(largest_seen[thread] - over_warps(shared.largest, Largest{}));
      });
      fold_warps(block, sum, shared.sum, Plus{});
      block.phase([&](int thread) {
        if (thread == 0) {
          float const most = over_warps(shared.largest, Largest{});
          float const total = over_warps(shared.sum, Plus{});
          largest[row] = most;
          sums[row] = total;
          losses[row] = std::log(total) - (logits[row][targets[row]] - most);
        }
      });
    }
  }

 private:
  template <int count>
  ZEROTH_DEVICE static void add(zeroth::cuda::Pack<float, count> const& some, float& seen, float& sum) {
    float most = seen;
    for (int k = 0; k < count; ++k) {
      most = Largest{}(most, some.at[k]);
    }
    if (most > seen) {
      sum *= std::exp(seen - most);
      seen = most;
    }
    for (int k = 0; k < count; ++k) {
      sum += std::exp(some.at[k] - seen);
    }
  }
};

/// The mean of losses, to which the logarithms of `sums` are added unless it is null. Runs in one block, in fp64.
struct MeanLoss {
  static constexpr int threads = 256;
  struct Shared {
    double sum[threads];
  };

  float const *losses, *sums;
  std::int64_t rows;
  float* mean;

  [[nodiscard]] std::int64_t work() const { return 1; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    block.phase([&](int thread) {
      double sum = 0;
      for (std::int64_t i = thread; i < rows; i += threads) {
        float const loss = sums == nullptr ? losses[i] : losses[i] + std::log(sums[i]);
        sum += static_cast<double>(loss);
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

/// dlogits = (softmax - one at the target) * seed / rows. Columns of `dlogits` after those of `logits` are padding, and
/// get 0. The rows of `dlogits` may begin where those of `logits` do: then gradients take the place of logits that have
/// been read, and those of 16 bits half of it.
template <Element T>
struct CrossEntropyBackward {
  static constexpr int threads = 256;
  static constexpr int resident_blocks = 6;  // the remaining registers hold the exponentials of a pack
  static constexpr int pack = zeroth::cuda::pack_count<float, T>;
  struct Shared {};

  StridedRows<float const> logits;
  std::int32_t const* targets;
  std::int32_t first_word;      // of the first column
  float const *largest, *sums;  // [rows]
  Seed seed;
  StridedRows<T> dlogits;
  zeroth::cuda::PackGrid<pack> grid;

  CrossEntropyBackward(StridedRows<float const> const& of, std::int32_t const* at, std::int32_t first,
                       float const* with_largest, float const* with_sums, Seed const& times, StridedRows<T> const& to)
      : logits{of},
        targets{at},
        first_word{first},
        largest{with_largest},
        sums{with_sums},
        seed{times},
        dlogits{to},
        grid{gpu::pack_grid<pack>(of, to)} {}
  [[nodiscard]] std::int64_t work() const { return logits.count; }

  /// A block has a row. The gradients of columns [c, 2c) lie at the earliest where the logits of [c / 2, c) were, which
  /// the phase before has read. Of the first columns each thread holds one until all have been read.
  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    float const each = seed.value() / static_cast<float>(logits.count);
    PerThread<Pack<float, 1>, Block> held;
    for (std::int64_t row = block.index(); row < logits.count; row += block.count()) {
      block.phase([&](int thread) {
        if (thread < logits.width) {
          held[thread] = slopes(row, thread, zeroth::cuda::load<1>(logits[row] + thread), each);
        }
      });
      block.phase([&](int thread) {
        if (thread < logits.width) {
          zeroth::cuda::store(dlogits[row] + thread, from_floats<T>(held[thread]));
        }
      });
      for (std::int64_t begin = threads; begin < logits.width; begin *= 2) {
        std::int64_t const end = begin * 2 < logits.width ? begin * 2 : logits.width;
        block.phase([&](int thread) {
          zeroth::cuda::each_pack<threads>(grid, {begin, end}, thread, [&](std::int64_t first, auto lanes) {
            auto const some = zeroth::cuda::load<lanes()>(logits[row] + first);
            zeroth::cuda::store(dlogits[row] + first, from_floats<T>(slopes(row, first, some, each)));
          });
        });
      }
      block.phase([&](int thread) {
        for (std::int64_t padding = logits.width + thread; padding < dlogits.width; padding += threads) {
          dlogits[row][padding] = T{};
        }
      });
    }
  }

 private:
  template <int count>
  [[nodiscard]] ZEROTH_DEVICE Pack<float, count> slopes(std::int64_t row, std::int64_t first,
                                                        zeroth::cuda::Pack<float, count> const& some,
                                                        float each) const {
    float const most = largest[row];
    float const scale = 1 / sums[row];
    std::int64_t const target = targets[row] - first_word;
    Pack<float, count> out;
    for (int k = 0; k < count; ++k) {
      float const probability = std::exp(some.at[k] - most) * scale;
      out.at[k] = (probability - (first + k == target ? 1.0F : 0.0F)) * each;
    }
    return out;
  }
};

}  // namespace gpt::gpu
