// SPDX-License-Identifier: Apache-2.0
/// GELU in its tanh form, which Hugging Face calls gelu_new.
#pragma once
#include <algorithm>

#include "cpu/kernels/rows.hpp"

namespace gpt::cpu {

namespace detail {

template <class S>
inline constexpr S sqrt_2_over_pi = S(0.7978845608028653558798921198687637);
template <class S>
inline constexpr S cubic = S(0.044715);
constexpr std::int64_t chunk = 2048;  // small enough to stay in the L1 cache with the data computed from it

template <class S>
void tanh_of_inner(ConstRow<S> const& u, Row<S> tanh) {
  tanh = (sqrt_2_over_pi<S> * u * (1 + cubic<S> * u.square())).tanh();
}

}  // namespace detail

/// out = gelu(inner)
template <class T>
void gelu(T const* inner, std::int64_t count, T* out) {
  using S = WideOf<T>;
  RowArray<S> wide(detail::chunk), tanh(detail::chunk);
  for (std::int64_t at = 0; at < count; at += detail::chunk) {
    auto const n = std::min(detail::chunk, count - at);
    auto const u = widened(inner + at, n, wide);
    Row<S> const t{tanh.data(), n};
    detail::tanh_of_inner<S>(u, t);
    store(S(0.5) * u * (1 + t), out + at, wide);
  }
}

/// d = d * (slope of gelu at inner)
template <class T>
void times_gelu_slope(T const* inner, std::int64_t count, T* d) {
  using S = WideOf<T>;
  RowArray<S> wide(detail::chunk), tanh(detail::chunk), wide_d(detail::chunk);
  for (std::int64_t at = 0; at < count; at += detail::chunk) {
    auto const n = std::min(detail::chunk, count - at);
    auto const u = widened(inner + at, n, wide);
    Row<S> const t{tanh.data(), n};
    detail::tanh_of_inner<S>(u, t);
    auto const slope =
        S(0.5) * (1 + t) * (1 + u * (1 - t) * detail::sqrt_2_over_pi<S> * (1 + 3 * detail::cubic<S> * u.square()));
    store(widened(d + at, n, wide_d) * slope, d + at, wide_d);
  }
}

}  // namespace gpt::cpu
