// SPDX-License-Identifier: Apache-2.0
// expect: has no member named 'backward'
#include "layer.hpp"

void use(zeroth::EvaluationPass<float>& pass, Layer const& layer) {
#ifdef MISUSE
  auto const p = pass.backward(layer.unit);
#else
  auto const p = pass.forward(layer.unit);
#endif
  static_cast<void>(p);
}
