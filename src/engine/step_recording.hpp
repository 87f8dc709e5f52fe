// SPDX-License-Identifier: Apache-2.0
/// A training step as two CUDA graphs: its passes up to the decision of all ranks, and its update. The host reads the
/// decision in between, while the update runs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine_state.hpp"
#include "zeroth/device/graph.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::engine {

/// The reason why steps of `engine` cannot be recorded, which names the key or the call; empty if they can.
[[nodiscard]] std::string why_not_recorded(detail::EngineState const& engine);

/// Records one step, which is launched on the way, and launches it again.
///
/// A recorded step begins and ends with the same units in the same slots: see stage::Schedule::start_over(). So
/// whatever the program does between two steps, gathers at the start of the next one restore what the graphs rely on.
class StepRecording {
 public:
  explicit StepRecording(detail::EngineState& engine) noexcept : engine_{&engine} {}

  /// Begins with the passes.
  void begin();
  /// Launches the passes, and continues with the update. `rules` are those of the decision that was captured.
  void begin_update(optim::StepRules const& rules);
  /// Launches the update. Throws ContractError if the recorded calls were not those of one whole step.
  void end();
  /// Call after an error, in place of the rest.
  void abandon() noexcept;
  /// Throws ContractError if the engine has changed since in a way that the graphs do not know.
  void expect_unchanged() const;
  /// Trains one more step.
  void launch();

 private:
  void begin_capture();
  void launch(device::Graph& graph, std::string_view purpose);
  [[nodiscard]] std::vector<std::byte const*> slots() const;

  detail::EngineState* engine_;
  std::unique_ptr<device::Graph> passes_, update_;
  optim::StepSums sums_;  // without what differs from step to step
  optim::StepRules rules_;
  std::size_t parity_ = 0;
  std::vector<std::byte const*> slots_;  // by flat unit, before the step and after it
  LaunchedCounts counts_;
  std::int64_t steps_before_ = 0;
  std::size_t metrics_ = 0;
  std::uint64_t factors_taken_ = 0;
};

}  // namespace zeroth::engine
