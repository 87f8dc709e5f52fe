// SPDX-License-Identifier: Apache-2.0
/// Whole training steps as CUDA graphs.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "zeroth/core/export.hpp"
#include "zeroth/engine/report.hpp"

namespace zeroth {

namespace detail {
class EngineState;
}
namespace engine {
class StepRecording;
}

/// Records one training step, with all its kernels and collectives, and launches it again for a few calls of CUDA: the
/// host no longer limits models whose steps take it longer than the GPU. The bits are those of steps that are not
/// recorded. Made by AnyEngine::step_graph(); destroy it before the engine.
///
///     auto graph = engine.step_graph();
///     for (std::int64_t step = 0; step < steps; ++step) {
///       copy_batch();  // on engine.compute_stream(), always to the same memory
///       if (step < 3) {
///         train();     // micro-steps and engine.step()
///       } else {
///         auto const report = graph.recorded() ? graph.replay() : graph.record(train);
///       }
///     }
///
/// The graphs keep all arguments of the recorded calls. So kernels must read from memory what differs between steps,
/// and the loss must be a DeviceLoss. Learning rate, clipping and a skipped update follow the device, and need nothing.
/// Between two steps the program may do anything: evaluate, save, restore, train steps that are not recorded. CUDA's
/// limits hold while a step is recorded: nothing may wait on the host or allocate device memory.
///
/// Reports of launched steps have an exposed_comm_ms of 0, because no event within a graph is timed. At stage 3, the
/// next step's first gathers are part of the update's graph, and forward begins after the last update.
class ZEROTH_EXPORT StepGraph {
 public:
  StepGraph(StepGraph&&) noexcept;             ///< Takes over the recording.
  StepGraph& operator=(StepGraph&&) noexcept;  ///< Takes over the recording.
  ~StepGraph();

  /// Calls `step`, which makes the calls of one whole step, up to AnyEngine::step(); captures what they enqueue, and
  /// launches it. So it trains one step, like the same calls without record(). Returns the report of the step before.
  /// Waits for that step only. Collective. Replaces an earlier recording.
  ///
  /// Call it between steps, and not for the first two steps of an engine, which connect and compare the ranks. Throws
  /// ContractError for calls that a recording cannot have, and after an error in `step` the engine is unusable.
  std::optional<StepReport> record(std::function<void()> const& step);
  /// Trains one more step by launching the recording. Returns the report of the step before, like AnyEngine::step().
  /// Waits for that step only. Collective. Call it between steps. Throws ContractError if nothing was recorded, or if a
  /// call since then has changed what the step enqueues: add_metric(), set_learning_rate_factors(), trace().
  std::optional<StepReport> replay();
  [[nodiscard]] bool recorded() const noexcept;  ///< Whether replay() has something to launch.

 private:
  friend class AnyEngine;
  explicit StepGraph(detail::EngineState& engine);

  detail::EngineState* engine_;
  std::unique_ptr<engine::StepRecording> recording_;
};

}  // namespace zeroth
