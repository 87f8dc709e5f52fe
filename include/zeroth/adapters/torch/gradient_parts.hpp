// SPDX-License-Identifier: Apache-2.0
/// Reduced gradients as tensors.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "zeroth/adapters/torch/tensors.hpp"
#include "zeroth/engine/reduced_gradient.hpp"

namespace zeroth::torch_adapter {

/// Consecutive elements of one parameter's gradient, after the reduction and before the update: see
/// Trainer::edit_gradients(). Valid until the program's function returns.
struct GradientPart {
  std::string_view parameter;  ///< The parameter's name.
  std::int64_t first = 0;      ///< Index of the first element in the row-major parameter.
  at::Tensor elements;         ///< [elements], in the engine's memory: operations in place change the gradient.
  double scale = 1;            ///< An element times this is its gradient of the mean loss, before clipping.
};

namespace detail {

/// Calls `edit` with tensors, without autograd.
[[nodiscard]] inline std::function<void(ReducedGradient const&)> with_tensors(
    std::function<void(GradientPart const&)> const& edit) {
  return [&edit](ReducedGradient const& gradient) {
    at::NoGradGuard const no_grad;
    auto const elements =
        at::from_blob(gradient.data, {gradient.count}, at::TensorOptions{}.dtype(scalar_type(gradient.dtype)));
    edit({gradient.parameter, gradient.first, elements, gradient.scale});
  };
}

}  // namespace detail
}  // namespace zeroth::torch_adapter
