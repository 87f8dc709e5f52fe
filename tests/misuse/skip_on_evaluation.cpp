// SPDX-License-Identifier: Apache-2.0
// expect: has no member named 'skip'|skip.* is protected within this context
#include "layer.hpp"

void use(zeroth::EvaluationPass<float>& pass, MicroStep& micro) {
#ifdef MISUSE
  pass.skip();
#else
  micro.skip();
#endif
  static_cast<void>(pass), static_cast<void>(micro);
}
