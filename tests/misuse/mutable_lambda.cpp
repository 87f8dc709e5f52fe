// SPDX-License-Identifier: Apache-2.0
// expect: no matching function for call to 'launch
// Thread ranks call the function at the same time.
#include "layer.hpp"

int use() {
#ifdef MISUSE
  return zeroth::launch({.thread_ranks = 2}, [calls = 0](zeroth::Job&) mutable { ++calls; });
#else
  return zeroth::launch({.thread_ranks = 2}, [calls = 0](zeroth::Job&) { static_cast<void>(calls); });
#endif
}
