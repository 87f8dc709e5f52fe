// SPDX-License-Identifier: Apache-2.0
/// The loss over rows of fp32 logits, of which a tensor rank has some columns. Ranks reduce between the passes: the
/// largest logits first, then the sums. CrossEntropyBackward is the gradient.
#pragma once
#include "gpu/kernels/cross_entropy.hpp"

namespace gpt::gpu {

/// A pass over rows, one per block, whose threads share the columns.
struct LogitsOfPart {
  static constexpr int threads = 256, warps = threads / warp_threads;
  static constexpr int resident_blocks = 6;  // with 8, a thread has 32 registers, and the maximum spills
  static constexpr int pack = zeroth::cuda::pack_count<float>;
  struct Shared {
    float of_warps[warps];
  };

  StridedRows<float const> logits;
  zeroth::cuda::PackGrid<pack> grid;

  explicit LogitsOfPart(StridedRows<float const> const& of) : logits{of}, grid{gpu::pack_grid<pack>(of)} {}
  [[nodiscard]] std::int64_t work() const { return logits.count; }

  /// For each row, folds value(row, logit) of all logits, from `start` on, and calls result(row, folded) on one thread.
  template <class Block, class Value, class Combine, class Result>
  ZEROTH_DEVICE void fold_rows(Block& block, Shared& shared, float start, Value const& value, Combine const& combine,
                               Result const& result) const {
    PerThread<float, Block> folded;
    for (std::int64_t row = block.index(); row < logits.count; row += block.count()) {
      block.alone([&](int thread) {
        float mine = start;
        zeroth::cuda::each_pack<threads>(grid, {0, logits.width}, thread, [&](std::int64_t first, auto lanes) {
          auto const some = zeroth::cuda::load<lanes()>(logits[row] + first);
          for (int k = 0; k < lanes(); ++k) {
            mine = combine(mine, value(row, some.at[k]));
          }
        });
        folded[thread] = mine;
      });
      fold_warps(block, folded, shared.of_warps, combine);
      block.phase([&](int thread) {
        if (thread == 0) {
          result(row, over_warps(shared.of_warps, combine));
        }
      });
    }
  }
};

/// The largest of a row's logits; minus infinity if there are none.
struct LargestOfPart : LogitsOfPart {
  float* largest;  // [rows]

  LargestOfPart(StridedRows<float const> const& of, float* to_largest) : LogitsOfPart{of}, largest{to_largest} {}

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    fold_rows(
        block, shared, -INFINITY, [](std::int64_t /*row*/, float logit) { return logit; }, Largest{},
        [&](std::int64_t row, float most) { largest[row] = most; });
  }
};

/// A row's sum of exponentials relative to the largest logit of all ranks, and its loss without the logarithm of that
/// sum; 0 if another rank has the target.
struct SumsOfPart : LogitsOfPart {
  std::int32_t const* targets;
  std::int32_t first_word;  // of the first column
  float const* largest;     // [rows]
  float *sums, *losses;     // [rows]

  SumsOfPart(StridedRows<float const> const& of, std::int32_t const* at, std::int32_t first, float const* with_largest,
             float* to_sums, float* to_losses)
      : LogitsOfPart{of}, targets{at}, first_word{first}, largest{with_largest}, sums{to_sums}, losses{to_losses} {}

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    fold_rows(
        block, shared, 0, [&](std::int64_t row, float logit) { return std::exp(logit - largest[row]); }, Plus{},
        [&](std::int64_t row, float sum) {
          std::int64_t const column = targets[row] - first_word;
          sums[row] = sum;
          losses[row] = column >= 0 && column < logits.width ? largest[row] - logits[row][column] : 0;
        });
  }
};

}  // namespace gpt::gpu
