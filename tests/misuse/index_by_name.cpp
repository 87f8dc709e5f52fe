// SPDX-License-Identifier: Apache-2.0
// expect: no match for 'operator\[\]'
#include "layer.hpp"

float const* use(zeroth::Params<float> const& p, Layer const& layer) {
#ifdef MISUSE
  static_cast<void>(layer);
  return p["weight"].data();
#else
  return p[layer.weight].data();
#endif
}
