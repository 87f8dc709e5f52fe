// SPDX-License-Identifier: Apache-2.0
// expect: no match for 'operator='
// Would lose what earlier uses and micro-steps added.
#include "layer.hpp"

void use(zeroth::Backward<float, float> const& p, Layer const& layer, Matrix const& d) {
#ifdef MISUSE
  as_eigen(p.grad(layer.weight)) = d;
#else
  as_eigen(p.grad(layer.weight)) += d;
#endif
}
