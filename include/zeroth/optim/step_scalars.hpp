// SPDX-License-Identifier: Apache-2.0
/// The few numbers that decide an update. They live on the device: no host needs to see them before the update runs.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "zeroth/core/export.hpp"
#include "zeroth/optim/exact_sum.hpp"
#include "zeroth/optim/loss_scale.hpp"
#include "zeroth/optim/schedule.hpp"

namespace zeroth::optim {

/// Metrics that an engine may have: their sums have places in memory from its start.
inline constexpr std::size_t most_metrics = 8;

/// Of what a program reports beside the loss.
struct MetricSums {
  ExactSum sum;     ///< Of what was reported.
  ExactSum weight;  ///< Of the weights that came with it.
};

/// One rank's contribution to a step; ranks are summed as fp64, which rounds nothing: all are whole numbers.
struct StepSums {
  ExactSum sum_of_squares;  ///< Of this rank's slices of the summed, still scaled gradients.
  ExactSum loss;            ///< Sum of weight times mean loss over this rank's micro-steps.
  ExactSum weight;          ///< Sum of weights.
  double stop = 0;          ///< 1 where a rank asked to stop.
  double call_hash = 0;     ///< 32-bit hash of what a rank did since the last step.
  double saved = 0;         ///< 1 where a rank has written its part of a checkpoint, 2 where it has its name.
  double save_failed = 0;   ///< 1 where a rank could not.
  std::array<MetricSums, most_metrics> metrics{};  ///< In the order of AnyEngine::add_metric().
};

/// Numbers in StepSums that ranks add up where an engine has `metrics` metrics: all of them, in one array of fp64.
[[nodiscard]] constexpr std::int64_t numbers_in_sums(std::size_t metrics) noexcept {
  return static_cast<std::int64_t>((sizeof(StepSums) - (most_metrics - metrics) * sizeof(MetricSums)) / sizeof(double));
}

/// The loss of a micro-step that the device computes, and the host need not see.
struct LossTerm {
  float const* mean = nullptr;  ///< On the device.
  double weight = 1;            ///< Of the micro-step.
};

/// What a step is decided by.
struct StepRules {
  /// Decay rates of moving averages that start at zero, which StepScalars has the corrections of; 0: there is none.
  std::array<double, 2> betas{0.9, 0.999};
  Schedule schedule;               ///< Of the learning rate.
  LossScaleRules loss_scale;       ///< Of fp16.
  float clip = 0;                  ///< Largest global norm of the gradient; 0 is no clipping.
  float gradient_prescale = 1;     ///< What the seed was multiplied by beside weight and loss scale; taken back here.
  bool skip_nonfinite = true;      ///< No update where the sum of squares is not finite.
  bool has_learning_rate = false;  ///< The caller gave one for this step.
  float given_learning_rate = 0;   ///< Instead of the schedule's.
};

/// State that outlives a step, and the results of the last one.
struct StepScalars {
  // state
  std::int64_t applied = 0;   ///< Updates applied: what rules, their bias correction and the schedule count.
  LossScaleState loss_scale;  ///< Of the next step.
  // what update() reads
  float gradient_scale = 0;    ///< Multiplies every gradient: 1 / (weight * loss scale * prescale), times clipping.
  float learning_rate = 0;     ///< Of this update.
  float bias_correction1 = 1;  ///< 1 - betas[0]^t
  float bias_correction2_sqrt = 1;  ///< sqrt(1 - betas[1]^t)
  bool skip = false;                ///< No rank updates: a gradient was not finite, or no micro-step had any weight.
  // what the report says
  bool stop = false;       ///< A rank asked to stop.
  bool nonfinite = false;  ///< The sum of squares: an element is not finite, or squares add up to more than fp32 holds.
  float loss = 0;          ///< The mean.
  float gradient_norm = 0;    ///< Before clipping.
  float loss_scale_used = 1;  ///< What the losses were multiplied by.
};

/// Turns the sums of all ranks into the scalars of this step. After a skipped update `applied` has not advanced.
/// Clipping as DeepSpeed and PyTorch do it: scale by clip / (norm + 1e-6) where the norm exceeds clip.
ZEROTH_EXPORT void advance(StepRules const& rules, StepSums const& total, StepScalars& scalars) noexcept;

}  // namespace zeroth::optim
