// SPDX-License-Identifier: Apache-2.0
// expect: use of deleted function .*Job
#include "layer.hpp"

void use(zeroth::Job& job) {
#ifdef MISUSE
  zeroth::Job const again = job;
#else
  zeroth::Job const& again = job;
#endif
  static_cast<void>(again);
}
