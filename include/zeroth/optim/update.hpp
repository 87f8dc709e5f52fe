// SPDX-License-Identifier: Apache-2.0
/// Optimizers as values: a rule, and the arguments of one update. An update processes contiguous elements in one pass,
/// which also writes the low-precision parameters, or rounds masters that are low-precision parameters.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/optim/matrix_product.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::optim {

/// A state that a rule keeps for every element between updates, besides the master.
struct State {
  std::string name;   ///< PyTorch's name, if it has one.
  float initial = 0;  ///< Initial value of every element.
};
/// Max states of a rule.
inline constexpr int most_states = 2;
/// Max states of an optimizer: those of a rule, and the average of the masters.
inline constexpr int most_kept_states = most_states + 1;
/// The name of that average.
inline constexpr char const* ema_name = "ema";

/// Kingma and Ba 2015, algorithm 1; with decoupled_decay AdamW, Loshchilov and Hutter 2019, algorithm 2.
struct Adam {
  static constexpr int state_count = 2;  ///< Number of states.
  double beta1 = 0.9;                    ///< Decay rate of the first moment.
  double beta2 = 0.999;                  ///< Decay rate of the second moment.
  float epsilon = 1e-8F;                 ///< Added to the root of the second moment.
  float weight_decay = 0;                ///< Multiplies the weight.
  bool decoupled_decay = true;           ///< If false, decay is added to the gradient (L2).
  bool bias_correction = true;           ///< Correct the moments for their start at zero.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return decoupled_decay ? "AdamW" : "Adam"; }
  /// Its states.
  [[nodiscard]] std::vector<State> states() const { return {{"exp_avg"}, {"exp_avg_sq"}}; }
};

/// Stochastic gradient descent. In this and the following rules, weight decay is added to the gradient.
struct Sgd {
  static constexpr int state_count = 0;  ///< Number of states.
  float weight_decay = 0;                ///< Multiplies the weight; added to the gradient.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "SGD"; }
  /// Its states.
  [[nodiscard]] std::vector<State> states() const { return {}; }
};

/// SGD with momentum as in PyTorch. The buffer starts as the first gradient; later it is momentum times itself plus 1 -
/// dampening times the gradient. With nesterov (Sutskever et al. 2013) the step is along the gradient plus momentum
/// times the buffer.
struct Momentum {
  static constexpr int state_count = 1;  ///< Number of states.
  float momentum = 0;                    ///< Factor of the buffer.
  double dampening = 0;                  ///< One minus the gradient's factor.
  float weight_decay = 0;                ///< Multiplies the weight; added to the gradient.
  bool nesterov = false;                 ///< Nesterov's momentum.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "SGD"; }
  /// Its states.
  [[nodiscard]] std::vector<State> states() const { return {{"momentum_buffer"}}; }
};

/// Adagrad: Duchi, Hazan and Singer 2011. Divides the rate of update t by 1 + (t - 1) rate_decay.
struct Adagrad {
  static constexpr int state_count = 1;  ///< Number of states.
  float epsilon = 1e-10F;                ///< Added to the root of the sum.
  float weight_decay = 0;                ///< Multiplies the weight; added to the gradient.
  float rate_decay = 0;                  ///< Decay of the learning rate.
  float initial_sum = 0;                 ///< Initial sum of squares.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "Adagrad"; }
  /// Its states.
  [[nodiscard]] std::vector<State> states() const { return {{"sum", initial_sum}}; }
};

/// RMSprop: Tieleman and Hinton 2012.
struct RmsProp {
  static constexpr int state_count = 1;  ///< Number of states.
  double alpha = 0.99;                   ///< Decay rate of the mean of squares.
  float epsilon = 1e-8F;                 ///< Added to the root of that mean.
  float weight_decay = 0;                ///< Multiplies the weight; added to the gradient.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "RMSprop"; }
  /// Its states.
  [[nodiscard]] std::vector<State> states() const { return {{"square_avg"}}; }
};

/// RMSprop with momentum: its steps are accumulated in a buffer that decays.
struct RmsPropMomentum {
  static constexpr int state_count = 2;  ///< Number of states.
  RmsProp plain;                         ///< The rule whose steps are accumulated.
  float momentum = 0;                    ///< Decay rate of the buffer.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "RMSprop"; }
  /// Its states.
  [[nodiscard]] std::vector<State> states() const { return {{"square_avg"}, {"momentum_buffer"}}; }
};

/// Lion: Chen et al. 2023, algorithm 2. Weight decay is decoupled, as in AdamW.
struct Lion {
  static constexpr int state_count = 1;  ///< Number of states.
  double beta1 = 0.9;                    ///< Weight of the average in the direction of the step.
  double beta2 = 0.999;                  ///< Decay rate of the average.
  float weight_decay = 0;                ///< Multiplies the weight.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "Lion"; }
  /// Its states.
  [[nodiscard]] std::vector<State> states() const { return {{"exp_avg"}}; }
};

/// How Muon makes the sizes of steps comparable between shapes; see adjustment().
enum class AdjustRate : std::uint8_t { original, match_rms_adamw };

/// The order of the products in Muon's iteration; see orthogonalise().
enum class NewtonSchulzMethod : std::uint8_t { standard, gram };

/// Muon: Jordan et al. 2024, for matrices. Its step has three parts, of which an update is the last: see direction()
/// and orthogonalise(). Weight decay is decoupled, as in AdamW. The gradient of an update is the direction of its step.
struct Muon {
  static constexpr int state_count = 1;           ///< Number of states.
  double momentum = 0.95;                         ///< Decay rate of the mean of gradients.
  float weight_decay = 0;                         ///< Multiplies the weight.
  bool nesterov = true;                           ///< Nesterov's momentum.
  int steps = 5;                                  ///< Iterations of Newton and Schulz.
  AdjustRate adjust_rate = AdjustRate::original;  ///< The factor of the step.
  Multiply multiply{};                            ///< The program's own; empty: the library's.
  /// The order of its products. `gram` needs the library's own.
  NewtonSchulzMethod method = NewtonSchulzMethod::standard;
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "Muon"; }
  /// Its states.
  [[nodiscard]] std::vector<State> states() const { return {{"momentum_buffer"}}; }
};

/// LAMB: You et al. 2020, "Large batch optimization for deep learning", algorithm 2, with DeepSpeed's bias correction
/// and limits of the trust ratio. A step has two passes, and an update is the second one. The first one moves all
/// moments, and computes the trust ratio of each parameter from the norms of its weights and of its direction. See
/// Segment::trust_ratio.
struct Lamb {
  static constexpr int state_count = 2;  ///< Number of states.
  double beta1 = 0.9;                    ///< Decay rate of the first moment.
  double beta2 = 0.999;                  ///< Decay rate of the second moment.
  float epsilon = 1e-8F;                 ///< Added to the root of the second moment.
  float weight_decay = 0;                ///< Multiplies the weight; added to the direction.
  float max_coefficient = 10;            ///< Largest trust ratio.
  float min_coefficient = 0.01F;         ///< Smallest trust ratio.
  bool bias_correction = true;           ///< Multiply the rate by sqrt(1 - beta2^t) / (1 - beta1^t).
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "Lamb"; }
  /// Its states.
  [[nodiscard]] std::vector<State> states() const { return {{"exp_avg"}, {"exp_avg_sq"}}; }
};

/// 1-bit Adam: Tang et al. 2021, "1-bit Adam: communication efficient large-scale training with Adam's convergence
/// speed", algorithm 1. Up to step `freeze_step` updates are those of `adam`. Then the second moment rests, and ranks
/// exchange first moments as signs. An update by this rule is one of those: its gradient is the new first moment, in
/// fp32. Elements whose second moment is zero keep a first moment of zero.
struct OneBitAdam {
  static constexpr int state_count = 2;  ///< Number of states.
  Adam adam;                             ///< With decoupled decay.
  std::int64_t freeze_step = 100'000;    ///< Steps with gradients that are not encoded.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "OneBitAdam"; }
  /// Its states.
  [[nodiscard]] std::vector<State> states() const { return adam.states(); }
};

/// The arguments of a custom rule in one call: some elements of one parameter, in fp32.
struct CustomRuleElements {
  std::span<float> master;                           ///< Updated by the call.
  std::span<float const> gradient;                   ///< Gradient of the mean loss, unscaled and clipped.
  std::array<std::span<float>, most_states> states;  ///< As declared; the others are empty.
  float learning_rate = 0;                           ///< The schedule's rate times the parameter's factor.
  float weight_decay_factor = 1;                     ///< The parameter's factor.
  std::int64_t applied = 0;                          ///< Number of this update, from 1.
};

/// A custom rule, for CPUs. `update` is called once for every few hundred elements of a parameter, on the thread that
/// calls step(), which throws what it throws; with zeroth.delayed_update on a thread of the engine, and a later call
/// throws. How elements are divided into calls depends on stage and world size, so it must treat each element by
/// itself; then all stages are bitwise equal. It must outlive the engine. If ranks are threads, they call it
/// concurrently.
struct CustomRule {
  std::string type;                                       ///< Its name in messages, plans and reports.
  std::vector<State> kept_states;                         ///< Its states, at most most_states.
  std::function<void(CustomRuleElements const&)> update;  ///< Updates master and states.
  /// Its name.
  [[nodiscard]] std::string_view name() const { return type; }
  /// Its states.
  [[nodiscard]] std::vector<State> states() const { return kept_states; }
};

/// Any rule. Decay rates are fp64, because one minus a rate is computed in fp64, as in PyTorch, and rounded once.
using Rule =
    std::variant<Adam, Sgd, Momentum, Adagrad, RmsProp, RmsPropMomentum, Lion, Muon, Lamb, OneBitAdam, CustomRule>;

/// The optimizer.
struct Update {
  Rule rule;                       ///< How an element is updated.
  std::int64_t rounding_seed = 0;  ///< Seed of stochastic rounding, if masters are bf16.
  float learning_rate_factor = 1;  ///< Multiplies the schedule's rate.
  /// Decay of the exponential moving average of the masters, which is kept as one more state; negative: none is kept.
  double ema_decay = -1;
};

/// The type in a stage file, or the name of a custom rule.
[[nodiscard]] ZEROTH_EXPORT std::string_view name_of(Rule const& rule) noexcept;
/// The rule's states, at most most_states.
[[nodiscard]] ZEROTH_EXPORT std::vector<State> states_of(Rule const& rule);
/// The number of states, without making them.
[[nodiscard]] ZEROTH_EXPORT int state_count(Rule const& rule) noexcept;
/// The optimizer's states: its rule's, then the average of the masters if there is one. At most most_kept_states.
[[nodiscard]] ZEROTH_EXPORT std::vector<State> states_of(Update const& update);
/// The number of the optimizer's states, without making them.
[[nodiscard]] ZEROTH_EXPORT int state_count(Update const& update) noexcept;
/// The decay rates for StepRules::betas.
[[nodiscard]] ZEROTH_EXPORT std::array<double, 2> betas_of(Rule const& rule) noexcept;

/// Elements [begin, end) with the same factors: one parameter's part of a shard.
struct Segment {
  std::int64_t begin = 0;          ///< Index in the arrays of the update.
  std::int64_t end = 0;            ///< Index in the arrays of the update.
  float learning_rate_factor = 1;  ///< Multiplies the schedule's rate.
  float weight_decay_factor = 1;   ///< Multiplies the rule's decay.
  std::int64_t element = 0;  ///< Index of the first one in the model; the noise of stochastic rounding depends on it.
  float const* trust_ratio = nullptr;  ///< Multiplies LAMB's rate, and is read when the kernel runs; null: 1.
};

/// The arguments of one update.
struct UpdateArgs {
  void* master = nullptr;                   ///< [count]
  Dtype master_dtype = Dtype::fp32;         ///< fp32, or bf16; then it is the parameter itself, and `parameter` is null
  std::array<void*, most_states> states{};  ///< [count] each; as many as the rule has
  Dtype states_dtype = Dtype::fp32;         ///< fp32, or bf16 if masters are bf16
  float* average = nullptr;                 ///< [count], if Update::ema_decay is not negative; otherwise null
  void const* gradient = nullptr;           ///< [count]
  Dtype gradient_dtype = Dtype::fp32;       ///< fp32, bf16 or fp16
  /// [count] of `parameter_dtype`, rounded from the master; null if the master is the parameter
  void* parameter = nullptr;
  Dtype parameter_dtype = Dtype::fp32;   ///< fp32, bf16 or fp16
  std::int64_t count = 0;                ///< Elements of each array.
  std::span<Segment const> segments;     ///< Ascending, disjoint. Elements in no segment (padding) are unchanged.
  Update const* update = nullptr;        ///< The optimizer.
  StepScalars const* scalars = nullptr;  ///< Read when the kernel runs. If `skip` is set, nothing is updated.
};

/// Runs one update by `args.update`'s rule, on the calling thread. Uses element-wise IEEE operations without
/// contraction, so AVX-512, AVX2 and plain code give the same bits. Reads and writes each array once: for Adam with
/// fp32 gradients and masters only, 28 bytes per element.
///
/// An average moves by `average + (1 - ema_decay) * (master - average)`, with the new master.
///
/// Masters and states in bf16 are widened, updated in fp32 and rounded stochastically. The noise depends only on
/// Update::rounding_seed, StepScalars::applied and Segment::element.
ZEROTH_EXPORT void update(UpdateArgs const& args);

}  // namespace zeroth::optim
