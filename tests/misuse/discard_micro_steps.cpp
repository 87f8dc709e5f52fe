// SPDX-License-Identifier: Apache-2.0
// expect: ignoring return(ed)? value.*nodiscard
#include "layer.hpp"

void use(Engine& engine) {
#ifdef MISUSE
  engine.micro_steps();
#else
  for (auto micro : engine.micro_steps()) {
    micro.skip();
  }
#endif
}
