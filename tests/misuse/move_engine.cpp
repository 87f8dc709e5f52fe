// SPDX-License-Identifier: Apache-2.0
// expect: use of deleted function .*Engine
// A function may make one where it returns it.
#include <utility>

#include "layer.hpp"

Engine make(zeroth::Job& job, zeroth::Model const& model, zeroth::Config const& config) {
#ifdef MISUSE
  Engine engine{job, model, config};
  return std::move(engine);
#else
  return Engine{job, model, config};
#endif
}
