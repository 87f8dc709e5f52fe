// SPDX-License-Identifier: Apache-2.0
/// Steps that are recorded once, and launched as CUDA graphs.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include <zeroth/zeroth.hpp>

#include "batches.hpp"
#include "gpu/micro_steps.hpp"

namespace gpt::gpu {

/// Trains a few steps as usual, records the next, and launches it for all others.
template <zeroth::Element T, zeroth::GradientOf<T> G>
class RecordedSteps {
 public:
  /// All arguments must outlive it. Throws ContractError, with the reason, if steps of this stage file or on this
  /// machine cannot be recorded.
  RecordedSteps(zeroth::Engine<T, G>& engine, MicroSteps<T, G>& micro_steps, Batches const& batches,
                zeroth::BatchSettings const& batch)
      : engine_{engine},
        micro_steps_{micro_steps},
        batches_{batches},
        samples_{batch.train / batch.accumulation},
        graph_{engine.step_graph()},
        uploaded_(static_cast<std::size_t>(batch.accumulation)) {}

  /// Trains one step. Returns the report of the step before.
  std::optional<zeroth::StepReport> step() {
    upload();
    if (graph_.recorded()) {
      return graph_.replay();
    }
    if (usual_ < usual_steps) {
      ++usual_;
      return enqueue();
    }
    return graph_.record([this] { static_cast<void>(enqueue()); });
  }

 private:
  /// An engine's first two steps cannot be recorded. By the third, all kernels are loaded and all memory is allocated.
  static constexpr int usual_steps = 3;

  /// All micro-batches of the step, because a recording does not read new ones.
  void upload() {
    auto first = engine_.first_sample() + engine_.place() * engine_.micro_batch();
    for (auto& uploaded : uploaded_) {
      batches_.read(first, engine_.micro_batch(), batch_);
      uploaded = micro_steps_.upload(batch_);
      first += samples_;
    }
  }
  std::optional<zeroth::StepReport> enqueue() {
    auto uploaded = uploaded_.begin();
    for (auto micro : engine_.micro_steps()) {
      micro_steps_.run(micro, *uploaded++);
    }
    return engine_.step();
  }

  zeroth::Engine<T, G>& engine_;
  MicroSteps<T, G>& micro_steps_;
  Batches const& batches_;
  std::int64_t samples_;  ///< Samples of a micro-step, over all ranks.
  zeroth::StepGraph graph_;
  std::vector<DeviceBatch> uploaded_;  ///< By micro-step.
  Batch batch_;
  int usual_ = 0;
};

}  // namespace gpt::gpu
