// SPDX-License-Identifier: Apache-2.0
// expect: no matching function for call to 'as_eigen|cannot bind rvalue reference
// A second addition would repeat the first one's beta.
#include "layer.hpp"

void use(zeroth::Backward<float, float> const& p, Layer const& layer, Matrix const& d) {
#ifdef MISUSE
  auto g = p.grad(layer.weight);
  as_eigen(g) += d;
#else
  as_eigen(p.grad(layer.weight)) += d;
#endif
}
