// SPDX-License-Identifier: Apache-2.0
/// The few numbers that decide an update. They are on the device, so the update can run before a host has seen them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "zeroth/core/export.hpp"
#include "zeroth/optim/exact_sum.hpp"
#include "zeroth/optim/learning_rate_schedule.hpp"
#include "zeroth/optim/loss_scale.hpp"

namespace zeroth::optim {

/// Max metrics per engine. Memory for their sums is reserved from the start.
inline constexpr std::size_t most_metrics = 8;

/// The sums of a metric that a program reports besides the loss.
struct MetricSums {
  ExactSum sum;     ///< Sum of the reported values.
  ExactSum weight;  ///< Sum of their weights.
};

/// One rank's contribution to a step. Ranks are summed in fp64 without rounding, since all numbers are whole.
struct StepSums {
  ExactSum sum_of_squares;  ///< Over this rank's slices of the summed gradients, still scaled.
  ExactSum loss;            ///< Sum of weight times mean loss over this rank's micro-steps.
  ExactSum weight;          ///< Sum of weights.
  double stop = 0;          ///< 1 if the rank asked to stop.
  double seconds = 0;       ///< On rank 0: since its engine was built.
  double call_hash = 0;     ///< 32-bit hash of the rank's calls since the last step.
  double saved = 0;         ///< 1 if the rank has written its part of a checkpoint, 2 if the checkpoint has its name.
  double save_failed = 0;   ///< 1 if the rank failed to.
  std::array<MetricSums, most_metrics> metrics{};  ///< In the order of AnyEngine::add_metric().
};

/// Number of fp64 values in StepSums that ranks sum for an engine with `metrics` metrics.
[[nodiscard]] constexpr std::int64_t numbers_in_sums(std::size_t metrics) noexcept {
  return static_cast<std::int64_t>((sizeof(StepSums) - (most_metrics - metrics) * sizeof(MetricSums)) / sizeof(double));
}

/// The loss of a micro-step that the device computes; the host need not see it.
struct LossTerm {
  float const* mean = nullptr;  ///< Address on the device.
  double weight = 1;            ///< Weight of the micro-step.
};

/// The rules that decide a step.
struct StepRules {
  /// Decay rates of moving averages that start at zero, for the bias corrections in StepScalars; 0: none.
  std::array<double, 2> betas{0.9, 0.999};
  /// Updates after which the second average rests, and so its correction; see OneBitAdam.
  std::int64_t second_moves_until = std::numeric_limits<std::int64_t>::max();
  LearningRateSchedule schedule;  ///< Learning-rate schedule.
  LossScaleRules loss_scale;      ///< Loss scaling for fp16.
  /// Loss scale of this step's gradients, if it is not the one that the state has; 0: it is.
  float loss_scale_used = 0;
  float clip = 0;                  ///< Max global norm of the gradient; 0: no clipping.
  float gradient_prescale = 1;     ///< The part of the loss factor besides weight and loss scale; undone here.
  bool skip_nonfinite = true;      ///< Skip the update if the sum of squares is not finite.
  bool has_learning_rate = false;  ///< Whether the caller passed a learning rate for this step.
  float given_learning_rate = 0;   ///< That rate; replaces the schedule's.
};

/// State that persists between steps, and the results of the last step.
struct StepScalars {
  // state
  /// Updates applied so far; optimizers, their bias correction and the schedule use this count.
  std::int64_t applied = 0;
  LossScaleState loss_scale;  ///< Loss scale of the next step.
  // inputs of update()
  float gradient_scale = 0;    ///< Multiplies every gradient: 1 / (weight * loss scale * prescale), times clipping.
  float learning_rate = 0;     ///< Learning rate of this update.
  float bias_correction1 = 1;  ///< 1 - betas[0]^t
  float bias_correction2_sqrt = 1;  ///< sqrt(1 - betas[1]^t)
  bool skip = false;                ///< No rank updates: a gradient was not finite, or no micro-step had any weight.
  // values for the report
  bool stop = false;          ///< A rank asked to stop.
  bool nonfinite = false;     ///< The sum of squares is not finite: an element is not, or the squares exceed fp32.
  float loss = 0;             ///< Mean loss.
  float gradient_norm = 0;    ///< Norm before clipping.
  float loss_scale_used = 1;  ///< Loss scale of this step.
};

/// Computes the scalars of this step from the sums of all ranks. A skipped update does not advance `applied`. Clips as
/// DeepSpeed and PyTorch do: scales by clip / (norm + 1e-6) if the norm exceeds clip.
ZEROTH_EXPORT void advance(StepRules const& rules, StepSums const& total, StepScalars& scalars) noexcept;

}  // namespace zeroth::optim
