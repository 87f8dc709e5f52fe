// SPDX-License-Identifier: Apache-2.0
// expect: has no member named 'grad'
#include "layer.hpp"

void use(MicroStep& micro, Layer const& layer, Matrix const& d) {
#ifdef MISUSE
  auto const p = micro.forward(layer.unit);
#else
  auto const p = micro.backward(layer.unit);
#endif
  as_eigen(p.grad(layer.weight)) += d;
}
