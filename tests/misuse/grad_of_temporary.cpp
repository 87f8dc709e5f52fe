// SPDX-License-Identifier: Apache-2.0
// expect: use of deleted function .*grad
// The memory would be sent before it is written.
#include "layer.hpp"

void use(MicroStep& micro, Layer const& layer, Matrix const& d) {
#ifdef MISUSE
  as_eigen(micro.backward(layer.unit).grad(layer.weight)) += d;
#else
  auto const p = micro.backward(layer.unit);
  as_eigen(p.grad(layer.weight)) += d;
#endif
}
