// SPDX-License-Identifier: Apache-2.0
// expect: has no member named 'random'|random.* is protected within this context
#include "layer.hpp"

void use(zeroth::EvaluationPass<float>& pass, MicroStep& micro) {
#ifdef MISUSE
  static_cast<void>(pass.random(0, 0));
#else
  static_cast<void>(micro.random(0, 0));
#endif
  static_cast<void>(pass);
}
