// SPDX-License-Identifier: Apache-2.0
/// A gradient between its reduction and the update.
#pragma once
#include <cstdint>
#include <string_view>

#include "zeroth/core/dtype.hpp"

namespace zeroth {

/// Consecutive elements of one parameter's gradient, which AnyEngine::edit_gradients() lets a program read and change.
/// Valid until the program's function returns.
struct ReducedGradient {
  std::string_view parameter;  ///< The parameter's name.
  std::int64_t first = 0;      ///< Index of the first element in the parameter, or in this tensor rank's part of it.
  std::int64_t count = 0;      ///< Elements.
  void* data = nullptr;        ///< The elements, on the engine's device.
  Dtype dtype = Dtype::fp32;   ///< In which micro-steps are accumulated: data_types.grad_accum_dtype.
  /// An element times this is its gradient of the mean loss, before clipping: elements are sums over samples, and
  /// multiplied by the loss scale.
  double scale = 1;
};

}  // namespace zeroth
