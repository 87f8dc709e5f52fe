// SPDX-License-Identifier: Apache-2.0
// expect: use of deleted function .*Backward
#include "layer.hpp"

void use(MicroStep& micro, Layer const& layer) {
#ifdef MISUSE
  auto p = micro.backward(layer.unit);
  auto const q = p;
#else
  auto p = micro.backward(layer.unit);
  auto const q = std::move(p);
#endif
  static_cast<void>(q);
}
