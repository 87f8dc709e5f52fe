// SPDX-License-Identifier: Apache-2.0
// expect: use of deleted function .*Engine
#include "layer.hpp"

void use(Engine& engine) {
#ifdef MISUSE
  Engine const again = engine;
#else
  Engine const& again = engine;
#endif
  static_cast<void>(again);
}
