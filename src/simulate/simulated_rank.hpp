// SPDX-License-Identifier: Apache-2.0
/// One rank that trains on a clock: the engine, and a program that only says what its math would take.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "comm/launch/job_state.hpp"
#include "simulate/tensor_sums.hpp"
#include "simulate/virtual_communicator.hpp"
#include "simulate/virtual_device.hpp"
#include "zeroth/engine/any_engine.hpp"
#include "zeroth/simulate/simulate.hpp"

namespace zeroth::simulate {

/// What every rank simulates.
struct Task {
  Model const& model;
  Config const& config;
  std::span<UnitWork const> work;
  Machine const& machine;
};

/// How often a unit runs in a micro-step.
[[nodiscard]] int uses(Model const& model, std::size_t unit);

/// What a rank has of its last step, or of the last ones.
struct RankResult {
  StepReport report;
  double step_ms = 0;      ///< The same as the report's, or the mean of several steps.
  SimulatedStage figures;  ///< Of a parameter server only bytes.
};

/// Operations of products, and those of them that are attention's.
struct Products {
  double flops = 0, of_attention = 0;
};

class SimulatedRank {
 public:
  /// Its math takes `slowdown` times as long. What it is made with outlives it.
  SimulatedRank(Task const& task, VirtualJob& job, int rank, double slowdown);
  SimulatedRank(SimulatedRank const&) = delete;  // devices know its address
  SimulatedRank& operator=(SimulatedRank const&) = delete;
  ~SimulatedRank() = default;

  /// Trains until a step is as the one before it, and another one, or several if they differ; `timeline` gets the last
  /// one, unless it is null. A parameter server serves meanwhile.
  void run(Timeline* timeline, RankResult& result);

  struct Period {
    double begin_us = 0, end_us = 0;
  };
  /// When the last step was.
  [[nodiscard]] Period const& step() const noexcept { return step_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }  ///< In the job.

 private:
  /// Returns the report of the step before.
  std::optional<StepReport> train(AnyEngine& engine);
  void serve(AnyEngine& engine, RankResult& result);
  /// An action of a stage of a pipeline.
  void run(AnyWork& work);

  template <class Pass>
  void forward(Pass& pass, std::uint32_t index);
  template <class Pass>
  void backward(Pass& pass, std::uint32_t index);
  /// What backward does up to the gradients of the unit's inputs; `rest` is made while tensor ranks add those up.
  void input_gradients(std::uint32_t index, Products const& products, Products const& rest, int thirds);
  /// Backward of a zero-bubble schedule. What is recomputed is so for the gradients by inputs, and kept for those of
  /// weights.
  void half_of_backward(AnyWork& pass, std::uint32_t index, bool weights);
  template <class Guard>
  void contribute(Guard const& guard, std::uint32_t index);

  /// Products of a unit, and `thirds` of the passes over its activations and matrices: forward has one, backward two.
  void compute(UnitWork const& work, Products const& products, int thirds);
  /// Tensor ranks spread and add up, `times` what forward does in the unit.
  void start(std::uint32_t index, std::span<TensorVerb const> verbs, double times, char const* purpose);
  /// The same, and compute waits for it.
  void communicate(std::uint32_t index, std::span<TensorVerb const> verbs, double times, char const* purpose);

  [[nodiscard]] UnitWork const& work_of(std::uint32_t index) const { return task_.work[index]; }

  Task task_;
  double slowdown_;
  VirtualJob& job_;
  int rank_;
  detail::JobState state_;
  std::unique_ptr<VirtualDevice> device_;  // of all that its job makes
  bool in_pipeline_ = false;
  std::int64_t samples_ = 0;    // of a micro-step
  TensorSums* sums_ = nullptr;  // null: there is one tensor rank
  Period step_;
};

}  // namespace zeroth::simulate
