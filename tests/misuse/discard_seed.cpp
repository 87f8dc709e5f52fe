// SPDX-License-Identifier: Apache-2.0
// expect: ignoring return(ed)? value.*nodiscard
// The gradient would miss the loss scale and the weight.
#include "layer.hpp"

void use(MicroStep& micro) {
#ifdef MISUSE
  micro.report_loss(1);
#else
  auto const seed = micro.report_loss(1);
  static_cast<void>(seed);
#endif
}
