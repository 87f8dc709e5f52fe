// SPDX-License-Identifier: Apache-2.0
// expect: assignment of read-only location
// Only the optimizer writes parameters.
#include "layer.hpp"

float use(zeroth::Params<float> const& p, Layer const& layer) {
#ifdef MISUSE
  p[layer.bias].data()[0] = 1;
#endif
  return p[layer.bias].data()[0];
}
