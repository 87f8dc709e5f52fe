// SPDX-License-Identifier: Apache-2.0
/// Reduce operators on elements.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "device/element_arithmetic.hpp"
#include "zeroth/core/reduce.hpp"

namespace zeroth::device {

/// Integers are added and multiplied as unsigned, so that they wrap around.
template <class T>
struct UnsignedOf {
  using type = T;
};
template <class T>
  requires std::is_integral_v<T>
struct UnsignedOf<T> {
  using type = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
};

/// One operator on elements of one type: `begin` takes the first rank's element, `add` each further one, and `end`
/// computes the result of `ranks` elements.
template <Reduce which, class T>
struct Fold {
  static constexpr Reduce reduce = which;
  using Type = T;
  using Wide = RankSumOf<T>;

  [[nodiscard, gnu::always_inline]] static inline Wide begin(T value) noexcept {
    if constexpr (is_logical) {
      return static_cast<Wide>(value != 0);
    } else {
      return widen_for_sum(value);
    }
  }

  [[nodiscard, gnu::always_inline]] static inline Wide add(Wide so_far, T value) noexcept {
    using Unsigned = typename UnsignedOf<Wide>::type;
    Wide const wide = begin(value);
    if constexpr (which == Reduce::sum || which == Reduce::average) {
      return static_cast<Wide>(static_cast<Unsigned>(so_far) + static_cast<Unsigned>(wide));
    } else if constexpr (which == Reduce::product) {
      return static_cast<Wide>(static_cast<Unsigned>(so_far) * static_cast<Unsigned>(wide));
    } else if constexpr (which == Reduce::maximum || which == Reduce::minimum) {
      return is_beyond<which == Reduce::maximum>(so_far, wide) ? wide : so_far;
    } else if constexpr (which == Reduce::logical_and || which == Reduce::bit_and) {
      return static_cast<Wide>(so_far & wide);
    } else if constexpr (which == Reduce::logical_or || which == Reduce::bit_or) {
      return static_cast<Wide>(so_far | wide);
    } else if constexpr (which == Reduce::logical_xor || which == Reduce::bit_xor) {
      return static_cast<Wide>(so_far ^ wide);
    } else {
      return is_beyond<which == Reduce::max_location>(so_far.value, wide.value) ? wide : so_far;
    }
  }

  [[nodiscard, gnu::always_inline]] static inline T end(Wide result, int ranks) noexcept {
    if constexpr (which == Reduce::average) {
      return round_sum<T>(result * (Wide{1} / static_cast<Wide>(ranks)));
    } else {
      return round_sum<T>(result);
    }
  }

 private:
  static constexpr bool is_logical =
      which == Reduce::logical_and || which == Reduce::logical_or || which == Reduce::logical_xor;
};

/// Reduce::premul_sum: the sum of elements times `factor`.
template <class T>
struct ScaledSum {
  static constexpr Reduce reduce = Reduce::premul_sum;
  using Type = T;
  using Wide = RankSumOf<T>;
  Wide factor;

  [[nodiscard, gnu::always_inline]] inline Wide begin(T value) const noexcept { return widen_for_sum(value) * factor; }
  [[nodiscard, gnu::always_inline]] inline Wide add(Wide so_far, T value) const noexcept {
    return so_far + begin(value);
  }
  [[nodiscard, gnu::always_inline]] inline T end(Wide result, int /*ranks*/) const noexcept {
    return round_sum<T>(result);
  }
};

template <auto value>
using Constant = std::integral_constant<decltype(value), value>;

/// Calls `function(Constant<dtype>{}, std::type_identity<T>{})`, where T is the element type of `dtype`.
template <class F>
void with_dtype(Dtype dtype, F&& function) {
  switch (dtype) {
    case Dtype::fp32: return function(Constant<Dtype::fp32>{}, std::type_identity<float>{});
    case Dtype::bf16: return function(Constant<Dtype::bf16>{}, std::type_identity<bf16>{});
    case Dtype::fp16: return function(Constant<Dtype::fp16>{}, std::type_identity<fp16>{});
    case Dtype::fp64: return function(Constant<Dtype::fp64>{}, std::type_identity<double>{});
    case Dtype::int32: return function(Constant<Dtype::int32>{}, std::type_identity<std::int32_t>{});
    case Dtype::int64: return function(Constant<Dtype::int64>{}, std::type_identity<std::int64_t>{});
    case Dtype::byte: return function(Constant<Dtype::byte>{}, std::type_identity<std::uint8_t>{});
    case Dtype::int8: return function(Constant<Dtype::int8>{}, std::type_identity<std::int8_t>{});
    case Dtype::fp32_location: return function(Constant<Dtype::fp32_location>{}, std::type_identity<LocatedFp32>{});
    case Dtype::int32_location: return function(Constant<Dtype::int32_location>{}, std::type_identity<LocatedInt32>{});
    case Dtype::fp64_location: return function(Constant<Dtype::fp64_location>{}, std::type_identity<LocatedFp64>{});
  }
}

/// Calls `function(Constant<reduce>{})`, for an operator without a factor.
template <class F>
void with_reduce(Reduce reduce, F&& function) {
  switch (reduce) {
    case Reduce::sum: return function(Constant<Reduce::sum>{});
    case Reduce::product: return function(Constant<Reduce::product>{});
    case Reduce::maximum: return function(Constant<Reduce::maximum>{});
    case Reduce::minimum: return function(Constant<Reduce::minimum>{});
    case Reduce::average: return function(Constant<Reduce::average>{});
    case Reduce::premul_sum: return;
    case Reduce::logical_and: return function(Constant<Reduce::logical_and>{});
    case Reduce::logical_or: return function(Constant<Reduce::logical_or>{});
    case Reduce::logical_xor: return function(Constant<Reduce::logical_xor>{});
    case Reduce::bit_and: return function(Constant<Reduce::bit_and>{});
    case Reduce::bit_or: return function(Constant<Reduce::bit_or>{});
    case Reduce::bit_xor: return function(Constant<Reduce::bit_xor>{});
    case Reduce::max_location: return function(Constant<Reduce::max_location>{});
    case Reduce::min_location: return function(Constant<Reduce::min_location>{});
  }
}

/// Calls `function(Fold<reduce, T>{})`, or for premul_sum `function(ScaledSum<T>{factor})`. Callers have checked
/// is_defined(reduce, dtype).
template <class F>
void with_fold(Reduce reduce, double factor, Dtype dtype, F&& function) {
  if (reduce == Reduce::premul_sum) {
    return with_dtype(dtype, [&]<Dtype of, class T>(Constant<of>, std::type_identity<T>) {
      if constexpr (is_defined(Reduce::premul_sum, of)) {
        function(ScaledSum<T>{static_cast<RankSumOf<T>>(factor)});
      }
    });
  }
  with_reduce(reduce, [&]<Reduce which>(Constant<which>) {
    with_dtype(dtype, [&]<Dtype of, class T>(Constant<of>, std::type_identity<T>) {
      if constexpr (is_defined(which, of)) {
        function(Fold<which, T>{});
      }
    });
  });
}

}  // namespace zeroth::device
