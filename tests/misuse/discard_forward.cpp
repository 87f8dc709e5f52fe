// SPDX-License-Identifier: Apache-2.0
// expect: ignoring return(ed)? value.*nodiscard
// The unit would be given back at once.
#include "layer.hpp"

void use(MicroStep& micro, Layer const& layer) {
#ifdef MISUSE
  micro.forward(layer.unit);
#else
  auto const p = micro.forward(layer.unit);
#endif
}
