/// The few numbers that decide an update. They live on the device: no host needs to see them before the update runs.
#pragma once
#include <cstdint>

#include "zeroth/optim/loss_scale.hpp"
#include "zeroth/optim/schedule.hpp"

namespace zeroth::optim {

/// One rank's contribution to a step; summed over ranks, in rank order, as fp64.
struct StepSums {
  double sum_of_squares = 0;  ///< Of this rank's slices of the summed, still scaled gradients.
  double loss = 0;            ///< Sum of weight times mean loss over this rank's micro-steps.
  double weight = 0;          ///< Sum of weights.
  double stop = 0;            ///< 1 where a rank asked to stop.
  double history = 0;         ///< 32-bit hash of what a rank did since the last step: sums of it are exact.
};

/// The loss of a micro-step that the device computes, and the host need not see.
struct LossTerm {
  float const* mean = nullptr;  ///< On the device.
  double weight = 1;
};

struct AdamRules {
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F, weight_decay = 0;
  bool decoupled_decay = true;  ///< AdamW (Loshchilov and Hutter 2019); otherwise decay is added to the gradient (L2).
  bool bias_correction = true;
  std::int64_t rounding_seed = 0;  ///< Of stochastic rounding, where masters are bf16.
};

struct StepRules {
  AdamRules adam;
  Schedule schedule;
  LossScaleRules loss_scale;
  float clip = 0;               ///< Largest global norm of the gradient; 0 is no clipping.
  float gradient_prescale = 1;  ///< What the seed was multiplied by beside weight and loss scale; taken back here.
  bool skip_nonfinite = true;
  bool has_learning_rate = false;  ///< The caller gave one for this step.
  float given_learning_rate = 0;
};

/// State that outlives a step, and the results of the last one.
struct StepScalars {
  // state
  std::int64_t applied = 0;  ///< Updates applied: what Adam's bias correction and the schedule count.
  LossScaleState loss_scale;
  // what adamw() reads
  float gradient_scale = 0;  ///< Multiplies every gradient: 1 / (weight * loss scale * prescale), times clipping.
  float learning_rate = 0;
  float bias_correction1 = 1;       ///< 1 - beta1^t
  float bias_correction2_sqrt = 1;  ///< sqrt(1 - beta2^t)
  bool skip = false;                ///< No rank updates: a gradient was not finite, or no micro-step had any weight.
  // what the report says
  bool stop = false;
  bool nonfinite = false;  ///< The sum of squares: an element is not finite, or squares add up to more than fp32 holds.
  float loss = 0, gradient_norm = 0, loss_scale_used = 1;
};

/// Turns the sums of all ranks into the scalars of this step. After a skipped update `applied` has not advanced.
/// Clipping as DeepSpeed and PyTorch do it: scale by clip / (norm + 1e-6) where the norm exceeds clip.
void advance(StepRules const& rules, StepSums const& total, StepScalars& scalars) noexcept;

}  // namespace zeroth::optim
