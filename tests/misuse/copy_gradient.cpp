// SPDX-License-Identifier: Apache-2.0
// expect: use of deleted function .*Gradient
// Asking for a gradient is the promise to write it once.
#include "layer.hpp"

void use(zeroth::Backward<float, float> const& p, Layer const& layer) {
#ifdef MISUSE
  auto g = p.grad(layer.weight);
  auto const h = g;
#else
  auto g = p.grad(layer.weight);
  auto const h = std::move(g);
#endif
  static_cast<void>(h);
}
