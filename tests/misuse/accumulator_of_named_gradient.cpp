// SPDX-License-Identifier: Apache-2.0
// expect: discards qualifiers|cannot convert
// A second accumulator() would clear what was added to the first.
#include "layer.hpp"

float* use(zeroth::Backward<float, float> const& p, Layer const& layer) {
#ifdef MISUSE
  auto g = p.grad(layer.weight);
  return g.accumulator().data();
#else
  auto g = p.grad(layer.weight);
  return std::move(g).accumulator().data();
#endif
}
