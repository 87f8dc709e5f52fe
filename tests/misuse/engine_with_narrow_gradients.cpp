// SPDX-License-Identifier: Apache-2.0
// expect: constraint|does not satisfy
// Gradients are written in the type of the math, or in fp32.
#include "layer.hpp"

void use(zeroth::Job& job, zeroth::Model const& model, zeroth::Config const& config) {
#ifdef MISUSE
  zeroth::Engine<float, zeroth::bf16> engine{job, model, config};
#else
  zeroth::Engine<zeroth::bf16, float> engine{job, model, config};
#endif
}
