// SPDX-License-Identifier: Apache-2.0
// expect: no matching function for call to 'widen
// A kernel of a convolution is no matrix until it is told which.
#include "layer.hpp"

float use(zeroth::Params<float> const& p, zeroth::Param<4> const& kernel) {
#ifdef MISUSE
  return widen(p[kernel]).sum();
#else
  return widen(p[kernel].reshape({8, 9})).sum();
#endif
}
