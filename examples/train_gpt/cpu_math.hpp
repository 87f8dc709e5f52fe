// SPDX-License-Identifier: Apache-2.0
/// What train() computes micro-steps with on the CPU.
#pragma once
#include <cstdint>
#include <zeroth/engine/engine.hpp>

#include "batches.hpp"
#include "engine_parameters.hpp"
#include "model.hpp"
#include "options.hpp"

namespace gpt {

template <zeroth::Element T, zeroth::GradientOf<T> G>
class CpuMath {
 public:
  CpuMath(zeroth::Engine<T, G>& /*engine*/, zeroth::Model const& model, GptParams const& params, Options const& options,
          std::int64_t /*micro_steps*/)
      : gpt_{params, options.recompute ? Recompute::on : Recompute::off},
        memory_{model},
        workspace_{gpt_.workspace()} {}

  /// Forward and backward.
  void micro_step(zeroth::MicroStep<T, G>& micro, Batch const& batch) {
    WideMicroStep<T, G> pass{micro, memory_};
    float const loss = gpt_.forward(pass, batch, workspace_);
    gpt_.backward(pass, batch, workspace_, micro.report_loss(loss));
  }

 private:
  Gpt<float> gpt_;
  WideMemory memory_;
  Gpt<float>::Workspace workspace_;
};

/// What train() takes.
struct OnCpu {
  template <zeroth::Element T, zeroth::GradientOf<T> G>
  using Math = CpuMath<T, G>;
};

}  // namespace gpt
