// SPDX-License-Identifier: Apache-2.0
/// A rank that trains in simulated time: the engine, and a program that only states how long its math would take.
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

/// The task that every rank simulates.
struct Task {
  Model const& model;
  Config const& config;
  std::span<UnitWork const> work;
  Machine const& machine;
};

/// The number of times that a unit runs in a micro-step.
[[nodiscard]] int uses(Model const& model, std::size_t unit);

/// A rank's results of its last step, or of its last steps.
struct RankResult {
  StepReport report;
  double step_ms = 0;      ///< The same as the report's, or the mean of several steps.
  SimulatedStage figures;  ///< Only bytes on a parameter server.
};

/// Operations of matrix products, and how many of them belong to attention.
struct Products {
  double flops = 0, of_attention = 0;
};

class SimulatedRank {
 public:
  /// Its math takes `slowdown` times as long. The arguments must outlive it.
  SimulatedRank(Task const& task, VirtualJob& job, int rank, double slowdown);
  SimulatedRank(SimulatedRank const&) = delete;  // devices know its address
  SimulatedRank& operator=(SimulatedRank const&) = delete;
  ~SimulatedRank() = default;

  /// Trains until a step equals the previous one, and then one more step, or several if they differ. `timeline`, if not
  /// null, gets the last step. A parameter server serves meanwhile.
  void run(Timeline* timeline, RankResult& result);

  struct Period {
    double begin_us = 0, end_us = 0;
  };
  /// The time of the last step.
  [[nodiscard]] Period const& step() const noexcept { return step_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }  ///< In the job.

 private:
  /// Returns the report of the step before.
  std::optional<StepReport> train(AnyEngine& engine);
  void serve(AnyEngine& engine, RankResult& result);
  /// Runs an action of a pipeline stage.
  void run(AnyWork& work);

  template <class Pass>
  void forward(Pass& pass, std::uint32_t index);
  template <class Pass>
  void backward(Pass& pass, std::uint32_t index);
  /// Backward up to the gradients of the unit's inputs. `rest` is computed while tensor ranks add those up.
  void input_gradients(std::uint32_t index, Products const& products, Products const& rest, int thirds);
  /// Backward of a zero-bubble schedule. Recomputation happens for gradients by inputs, and its results are kept for
  /// gradients of weights.
  void half_of_backward(AnyWork& pass, std::uint32_t index, bool weights);
  template <class Guard>
  void contribute(Guard const& guard, std::uint32_t index);

  /// Computes products of a unit, and `thirds` thirds of the passes over its activations and matrices: forward has one
  /// third, backward two.
  void compute(UnitWork const& work, Products const& products, int thirds);
  /// Starts the communication of tensor ranks, `times` times that of forward in the unit.
  void start(std::uint32_t index, std::span<TensorVerb const> verbs, double times, char const* purpose);
  /// Like start(), but compute waits for it.
  void communicate(std::uint32_t index, std::span<TensorVerb const> verbs, double times, char const* purpose);

  [[nodiscard]] UnitWork const& work_of(std::uint32_t index) const { return task_.work[index]; }

  Task task_;
  double slowdown_;
  VirtualJob& job_;
  int rank_;
  detail::JobState state_;
  std::unique_ptr<VirtualDevice> device_;  // all devices of its job share its clocks
  bool in_pipeline_ = false;
  std::int64_t samples_ = 0;    // per micro-step
  TensorSums* sums_ = nullptr;  // null if there is one tensor rank
  Period step_;
};

}  // namespace zeroth::simulate
