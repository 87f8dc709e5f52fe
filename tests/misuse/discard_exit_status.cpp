// SPDX-License-Identifier: Apache-2.0
// expect: ignoring return value
#include "layer.hpp"

void use() {
#ifdef MISUSE
  zeroth::launch({.thread_ranks = 2}, [](zeroth::Job&) {});
#else
  static_cast<void>(zeroth::launch({.thread_ranks = 2}, [](zeroth::Job&) {}));
#endif
}
