// SPDX-License-Identifier: Apache-2.0
// expect: ignoring return(ed)? value.*nodiscard
#include "layer.hpp"

void use(zeroth::Backward<float, float> const& p, Layer const& layer) {
#ifdef MISUSE
  p.grad(layer.weight);
#else
  auto const g = p.grad(layer.weight);
#endif
}
