// SPDX-License-Identifier: Apache-2.0
// expect: constraint|does not satisfy
// The math is fp32, bf16 or fp16.
#include "layer.hpp"

void use(zeroth::Job& job, zeroth::Model const& model, zeroth::Config const& config) {
#ifdef MISUSE
  zeroth::Engine<double> engine{job, model, config};
#else
  zeroth::Engine<float> engine{job, model, config};
#endif
}
