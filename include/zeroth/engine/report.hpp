// SPDX-License-Identifier: Apache-2.0
/// What a step tells about itself.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "zeroth/optim/step_scalars.hpp"

namespace zeroth {
namespace detail {
class EngineState;
}

/// A number that a program reports beside the loss, from AnyEngine::add_metric(). A handle: copy it.
class Metric {
 public:
  [[nodiscard]] std::size_t index() const noexcept { return index_; }  ///< In the order in which they were added.

 private:
  friend class AnyEngine;
  friend class AnyPass;
  Metric(detail::EngineState const* engine, std::size_t index) noexcept : engine_{engine}, index_{index} {}
  detail::EngineState const* engine_;
  std::size_t index_;
};

/// Of each metric its sum over its weight, over ranks and passes, in fp64. NaN where nothing had any weight.
class MetricMeans {
 public:
  MetricMeans() = default;  ///< Of nothing.
  /// Of sums over all ranks.
  explicit MetricMeans(std::array<optim::MetricSums, optim::most_metrics> const& sums) noexcept : sums_{sums} {}
  /// Of `metric`, which belongs to the engine that reported. Not collective.
  [[nodiscard]] double operator[](Metric metric) const noexcept {
    return sums_[metric.index()].sum.value() / sums_[metric.index()].weight.value();
  }

 private:
  std::array<optim::MetricSums, optim::most_metrics> sums_{};
};

/// The same on every rank, but for the milliseconds; in a pipeline bytes, misses and slots are those of the stage.
struct StepReport {
  std::int64_t step = 0;    ///< From 1.
  float loss = 0;           ///< Weighted mean over ranks and micro-steps.
  float grad_norm = 0;      ///< Global, unscaled, before clipping; see `nonfinite`.
  float learning_rate = 0;  ///< That this step used.
  float loss_scale = 1;     ///< That this step used.
  MetricMeans metrics;      ///< Over ranks and micro-steps: `report.metrics[accuracy]`.
  /// An element of the gradient was not finite, or the squares of 1024 neighbours, still scaled, add up to more than
  /// fp32 holds, as they do where one is 1.8e19. What then happens zeroth.skip_nonfinite says: by default 16-bit
  /// training skips the update, and fp32 goes on.
  bool nonfinite = false;
  bool skipped = false;        ///< No rank updated: see `nonfinite`, or nothing had any weight.
  bool stop = false;           ///< Some rank asked to stop; all ranks read it at the same step.
  double step_ms = 0;          ///< From the call of step() before to this step's.
  double exposed_comm_ms = 0;  ///< The compute stream's waits for communication, or what ran in line.
  /// Updates' waits for states on a disk, gathers' for what this rank reads for them, or what ran in line. Not in
  /// `exposed_comm_ms`, which has what waits for other ranks' disks.
  double exposed_io_ms = 0;
  double save_ms = 0;    ///< Updates' waits for a save that still read what they were to write.
  double bubble_ms = 0;  ///< Actions' waits for neighbouring stages of a pipeline. Not in `exposed_comm_ms`.
  /// That this rank's all-gathers of parameters brought together: full units, or with groups what each holds of one.
  std::int64_t gathered_bytes = 0;
  std::int64_t gathered_across_groups_bytes = 0;  ///< Of those, between ranks of different groups.
  /// That this rank's reductions summed: full units, or with groups what sums within one left; and what was gathered
  /// of sums.
  std::int64_t reduced_bytes = 0;
  std::int64_t reduced_across_groups_bytes = 0;  ///< Of those, between ranks of different groups.
  std::int64_t disk_read_bytes = 0;              ///< Of what is offloaded, that updates and gathers asked for.
  std::int64_t disk_written_bytes = 0;           ///< Likewise, by updates.
  std::int64_t prefetch_misses = 0;              ///< Units whose gather began only when they were asked for.
  int parameter_slots_used = 0;                  ///< At most at one time, since the engine was built.
  int gradient_slots_used = 0;                   ///< At most at one time, since the engine was built.
};

}  // namespace zeroth
