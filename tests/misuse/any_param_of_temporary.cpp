// SPDX-License-Identifier: Apache-2.0
// expect: use of deleted function .*operator\[\]
// The view would outlive its guard.
#include "layer.hpp"

void const* use(zeroth::AnyMicroStep& micro, Layer const& layer, zeroth::AnyParam const& param) {
#ifdef MISUSE
  return micro.forward(layer.unit)[param].data;
#else
  auto const p = micro.forward(layer.unit);
  return p[param].data;
#endif
}
