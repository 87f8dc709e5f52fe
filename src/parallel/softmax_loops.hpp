// SPDX-License-Identifier: Apache-2.0
/// Softmax over a row of logits, or a part of it. Runs on the calling thread, with the same bits on every instruction
/// set.
#pragma once
#include <cstdint>

#include "zeroth/core/dtype.hpp"

namespace zeroth::parallel {

/// The largest logit, ignoring NaNs; -infinity if there is none.
template <Element T>
[[nodiscard]] float largest_of(T const* logits, std::int64_t count) noexcept;

/// The sum of exp(logit - largest). No logit may be larger than `largest`.
template <Element T>
[[nodiscard]] float sum_of_exponentials(T const* logits, std::int64_t count, float largest) noexcept;

/// slopes = (exp(logit - largest) / sum - (1 at the target, else 0)) * seed.
struct SoftmaxSlopes {
  float largest, sum, seed;
};
/// `target` is a column, or negative for none. `slopes` may share the memory of `logits` if both have one type.
template <Element T, Element S>
void softmax_slopes(T const* logits, std::int64_t count, SoftmaxSlopes const& of, std::int64_t target,
                    S* slopes) noexcept;

}  // namespace zeroth::parallel
