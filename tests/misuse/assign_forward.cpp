// SPDX-License-Identifier: Apache-2.0
// expect: use of deleted function .*operator=
// Would acquire the next unit before it releases this one.
#include "layer.hpp"

void use(MicroStep& micro, Layer const& layer, Layer const& next) {
#ifdef MISUSE
  auto p = micro.forward(layer.unit);
  p = micro.forward(next.unit);
#else
  { auto const p = micro.forward(layer.unit); }
  auto const p = micro.forward(next.unit);
#endif
  static_cast<void>(p);
}
