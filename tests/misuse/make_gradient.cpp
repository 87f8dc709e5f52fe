// SPDX-License-Identifier: Apache-2.0
// expect: is private within this context|no matching function
// Gradients come only from guards, which know whether to add or to assign.
#include "layer.hpp"

zeroth::Gradient<float, 1> use(zeroth::Backward<float, float> const& p, Layer const& layer, float* memory) {
#ifdef MISUSE
  return zeroth::Gradient<float, 1>{zeroth::detail::Contribution{nullptr, memory, 0}, zeroth::Shape<1>{3}};
#else
  static_cast<void>(memory);
  return p.grad(layer.bias);
#endif
}
