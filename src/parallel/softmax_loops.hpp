// SPDX-License-Identifier: Apache-2.0
/// A row of logits, or a part of it, as softmax reads it. On the calling thread; the same bits on every instruction
/// set.
#pragma once
#include <cstdint>

#include "zeroth/core/dtype.hpp"

namespace zeroth::parallel {

/// -infinity of none. A NaN counts for none.
template <Element T>
[[nodiscard]] float largest_of(T const* logits, std::int64_t count) noexcept;

/// Of their distances to `largest`, which is none of them smaller than.
template <Element T>
[[nodiscard]] float sum_of_exponentials(T const* logits, std::int64_t count, float largest) noexcept;

/// What softmax is turned into: slopes = (exp(logit - largest) / sum - 1 at the target) * seed.
struct SoftmaxSlopes {
  float largest, sum, seed;
};
/// `target`: a column, or below 0 for none. `slopes` may be the memory of `logits` where both have one type.
template <Element T, Element S>
void softmax_slopes(T const* logits, std::int64_t count, SoftmaxSlopes const& of, std::int64_t target,
                    S* slopes) noexcept;

}  // namespace zeroth::parallel
