// SPDX-License-Identifier: Apache-2.0
/// The kernels of attention, and the choice of kernels for a head width.
#pragma once
#include <type_traits>

#include "gpu/kernels/attention.hpp"
#include "gpu/kernels/tensor_attention_backward.hpp"
#include "gpu/kernels/tensor_attention_forward.hpp"

namespace gpt::gpu {

template <Element T, int most_width, class Reads>
struct PlainAttention {
  static constexpr bool on_tensor_cores = false;
  using Forward = AttentionForward<T, most_width, Reads>;
  using BackwardQueries = AttentionBackwardQueries<T, most_width, Reads>;
  using BackwardKeys = AttentionBackwardKeys<T, most_width, Reads>;
};

template <Element T, int most_width, class Reads>
struct TensorAttention {
  static constexpr bool on_tensor_cores = true;
  using Forward = TensorAttentionForward<T, most_width, Reads>;
  using BackwardQueries = TensorAttentionBackwardQueries<T, most_width, Reads>;
  using BackwardKeys = TensorAttentionBackwardKeys<T, most_width, Reads>;
};

inline constexpr std::int64_t widest_head = 128;

/// Calls `f` with the kernels for `Reads` and heads of `width` channels, at most widest_head: those with the narrowest
/// tiles that fit a head. Tensor cores are used for 16-bit heads with rows that can be read in accesses of 16 bytes.
template <Element T, class Reads, class F>
void with_attention_kernels(std::int64_t width, F const& f) {
  auto const choose = [&](auto most) {
    if constexpr (sizeof(T) == 2) {
      if (width % zeroth::cuda::pack_count<T> == 0) {
        f(TensorAttention<T, most(), Reads>{});
        return;
      }
    }
    f(PlainAttention<T, most(), Reads>{});
  };
  if (width <= 32) {
    choose(std::integral_constant<int, 32>{});
  } else if (width <= 64) {
    choose(std::integral_constant<int, 64>{});
  } else {
    choose(std::integral_constant<int, 128>{});
  }
}

}  // namespace gpt::gpu
