// SPDX-License-Identifier: Apache-2.0
// expect: no matching function for call to 'widen
// A convolution kernel is not a matrix until reshape() says which one.
#include "layer.hpp"

float use(zeroth::Params<float> const& p, zeroth::Param<4> const& kernel) {
#ifdef MISUSE
  return widen(p[kernel]).sum();
#else
  return widen(p[kernel].reshape({8, 9})).sum();
#endif
}
