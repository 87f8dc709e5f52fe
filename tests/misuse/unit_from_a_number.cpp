// SPDX-License-Identifier: Apache-2.0
// expect: is private within this context|no matching function
// Ids come from a Model.
#include "layer.hpp"

void use(zeroth::Model& model) {
#ifdef MISUSE
  static_cast<void>(model);
  zeroth::Unit const unit{0, 0};
#else
  zeroth::Unit const unit = model.unit("first");
#endif
  static_cast<void>(unit);
}
