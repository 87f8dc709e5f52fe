// SPDX-License-Identifier: Apache-2.0
// expect: void value not ignored
#include "layer.hpp"

float use(zeroth::EvaluationPass<float>& pass, MicroStep& micro) {
#ifdef MISUSE
  static_cast<void>(micro);
  return pass.report_loss(1);
#else
  pass.report_loss(1);
  return micro.report_loss(1);
#endif
}
