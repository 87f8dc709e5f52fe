// SPDX-License-Identifier: Apache-2.0
// expect: use of deleted function .*operator\[\]
// The view would outlive the guard.
#include "layer.hpp"

float const* use(MicroStep& micro, Layer const& layer) {
#ifdef MISUSE
  return micro.backward(layer.unit)[layer.weight].data();
#else
  auto const p = micro.backward(layer.unit);
  return p[layer.weight].data();
#endif
}
