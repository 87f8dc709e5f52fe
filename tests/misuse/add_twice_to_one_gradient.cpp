// SPDX-License-Identifier: Apache-2.0
// expect: passing .* as 'this' argument discards qualifiers|cannot convert .* to '.*&&'|no match for 'operator\+='
// At beta 0 the second addition would overwrite the first.
#include "layer.hpp"

void use(zeroth::Backward<float, float> const& p, Layer const& layer, Matrix const& d) {
#ifdef MISUSE
  auto sum = as_eigen(p.grad(layer.weight));
  sum += d;
  sum += d;
#else
  as_eigen(p.grad(layer.weight)) += d;
  as_eigen(p.grad(layer.weight)) += d;
#endif
}
