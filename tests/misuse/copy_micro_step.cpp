// SPDX-License-Identifier: Apache-2.0
// expect: use of deleted function .*MicroStep
// Each micro-step happens once.
#include "layer.hpp"

void use(MicroStep& micro) {
#ifdef MISUSE
  MicroStep const again = micro;
#else
  MicroStep const& again = micro;
#endif
  static_cast<void>(again);
}
