// SPDX-License-Identifier: Apache-2.0
// expect: passing .* as 'this' argument discards qualifiers|cannot convert .* to '.*&&'|no matching function
// One gradient has one promise to write it.
#include "layer.hpp"

float use(zeroth::Backward<float, float> const& p, zeroth::Param<4> const& kernel) {
  auto gradient = p.grad(kernel);
#ifdef MISUSE
  return gradient.reshape({8, 9}).beta();
#else
  return std::move(gradient).reshape({8, 9}).beta();
#endif
}
