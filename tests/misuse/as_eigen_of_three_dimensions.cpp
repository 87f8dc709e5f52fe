// SPDX-License-Identifier: Apache-2.0
// expect: no matching function for call to 'as_eigen
#include "layer.hpp"

void use(zeroth::Params<float> const& p, zeroth::Param<3> const& cube, Layer const& layer) {
#ifdef MISUSE
  static_cast<void>(layer);
  Matrix const m = as_eigen(p[cube]);
#else
  static_cast<void>(cube);
  Matrix const m = as_eigen(p[layer.weight]);
#endif
}
