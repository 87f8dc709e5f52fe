// SPDX-License-Identifier: Apache-2.0
// expect: invalid initialization of reference|could not convert
#include "layer.hpp"

zeroth::Params<float> const& use(zeroth::Params<zeroth::bf16> const& narrow, zeroth::Params<float> const& p) {
#ifdef MISUSE
  static_cast<void>(p);
  return narrow;
#else
  static_cast<void>(narrow);
  return p;
#endif
}
