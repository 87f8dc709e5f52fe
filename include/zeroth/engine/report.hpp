// SPDX-License-Identifier: Apache-2.0
/// The report of a step.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "zeroth/optim/step_scalars.hpp"

namespace zeroth {
namespace detail {
class EngineState;
}

/// A handle to a number that a program reports besides the loss; made by AnyEngine::add_metric(). Copyable.
class Metric {
 public:
  [[nodiscard]] std::size_t index() const noexcept { return index_; }  ///< Index in the order of adding.

 private:
  friend class AnyEngine;
  friend class AnyPass;
  Metric(detail::EngineState const* engine, std::size_t index) noexcept : engine_{engine}, index_{index} {}
  detail::EngineState const* engine_;
  std::size_t index_;
};

/// Means of metrics: sum over weight, over ranks and passes, in fp64. NaN if the weight is 0.
class MetricMeans {
 public:
  MetricMeans() = default;  ///< Means of nothing.
  /// Takes sums over all ranks.
  explicit MetricMeans(std::array<optim::MetricSums, optim::most_metrics> const& sums) noexcept : sums_{sums} {}
  /// The mean of `metric`, which must belong to the engine that reported. Not collective.
  [[nodiscard]] double operator[](Metric metric) const noexcept {
    return sums_[metric.index()].sum.value() / sums_[metric.index()].weight.value();
  }

 private:
  std::array<optim::MetricSums, optim::most_metrics> sums_{};
};

/// A step's report. The same on every rank, except for times; in a pipeline, bytes, misses and slots are the stage's.
struct StepReport {
  std::int64_t step = 0;    ///< From 1.
  float loss = 0;           ///< Weighted mean over ranks and micro-steps.
  float grad_norm = 0;      ///< Global, unscaled, before clipping; see `nonfinite`.
  float learning_rate = 0;  ///< Used by this step.
  float loss_scale = 1;     ///< Used by this step.
  MetricMeans metrics;      ///< Over ranks and micro-steps: `report.metrics[accuracy]`.
  /// The gradient has a NaN or an infinity, or the scaled squares of 1024 neighbouring elements sum to more than fp32
  /// holds, as one element of 1.8e19 does. zeroth.skip_nonfinite decides what follows: by default 16-bit training skips
  /// the update, and fp32 training does not.
  bool nonfinite = false;
  bool skipped = false;      ///< No rank updated, because of `nonfinite`, or because the total weight was 0.
  bool stop = false;         ///< Some rank asked to stop; all ranks see this in the same step.
  bool save_failed = false;  ///< The save under way has failed; Saving::failure() says why.
  /// Seconds from the construction of rank 0's engine to its call of step(). The same on every rank, so that all ranks
  /// can decide by it in the same way: to save every ten minutes, or to end before a limit. With
  /// zeroth.parameter_server.staleness each worker has its own clock.
  double elapsed_s = 0;
  /// With zeroth.parameter_server.staleness: the number of steps that the slowest worker was behind this one when it
  /// could continue. Each worker has its own value, and then also its own loss, norm and metrics.
  int staleness = 0;
  double step_ms = 0;          ///< From the previous call of step() to this one.
  double exposed_comm_ms = 0;  ///< Time that the compute stream waited for communication, or ran it inline.
  /// Time that updates waited for states on disk, and gathers for this rank's reads, or that ran inline. Waits for
  /// other ranks' disks are in `exposed_comm_ms` instead.
  double exposed_io_ms = 0;
  double save_ms = 0;  ///< Time that updates waited for a save to read what they overwrite.
  /// Time that the compute stream waited for an ActivationStore: for a free slot, or for a read. Not in
  /// `exposed_io_ms`.
  double activation_ms = 0;
  double bubble_ms = 0;  ///< Time that actions waited for neighbouring pipeline stages. Not in `exposed_comm_ms`.
  /// Output bytes of this rank's all-gathers of parameters: full units, or with groups the pieces that each rank of a
  /// group holds.
  std::int64_t gathered_bytes = 0;
  std::int64_t gathered_across_groups_bytes = 0;  ///< The part of those between ranks of different groups.
  /// Bytes that this rank's reductions summed: full units, or with groups the results of sums within a group. Includes
  /// gathered sums.
  std::int64_t reduced_bytes = 0;
  std::int64_t reduced_across_groups_bytes = 0;  ///< The part of those between ranks of different groups.
  std::int64_t disk_read_bytes = 0;              ///< Offloaded bytes read by updates and gathers.
  std::int64_t disk_written_bytes = 0;           ///< Offloaded bytes written by updates.
  std::int64_t prefetch_misses = 0;              ///< Units whose gather began only when they were needed.
  int parameter_slots_used = 0;                  ///< Peak since the engine was built.
  int gradient_slots_used = 0;                   ///< Peak since the engine was built.
};

}  // namespace zeroth
