// SPDX-License-Identifier: Apache-2.0
/// Dispatch from a run-time dtype to a C++ type.
#pragma once
#include <type_traits>
#include <utility>

#include "zeroth/core/dtype.hpp"

namespace zeroth {

[[nodiscard]] constexpr bool is_element(Dtype dtype) noexcept {
  return dtype == Dtype::fp32 || dtype == Dtype::bf16 || dtype == Dtype::fp16;
}

/// Calls `function(std::type_identity<T>{})` for the Element type T. Callers have checked is_element(dtype).
template <class F>
void with_element(Dtype dtype, F&& function) {
  switch (dtype) {
    case Dtype::bf16: return std::forward<F>(function)(std::type_identity<bf16>{});
    case Dtype::fp16: return std::forward<F>(function)(std::type_identity<fp16>{});
    default: return std::forward<F>(function)(std::type_identity<float>{});
  }
}

}  // namespace zeroth
