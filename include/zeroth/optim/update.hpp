// SPDX-License-Identifier: Apache-2.0
/// An optimizer as a value: a rule, and what one call of it works on. A rule updates contiguous elements in one pass
/// that also writes the low-precision parameters, or rounds masters that are low-precision parameters.
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
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::optim {

/// What a rule keeps of every element from one update to the next, beside the master.
struct State {
  std::string name;   ///< PyTorch's, where it has one.
  float initial = 0;  ///< Of every element.
};
/// Of a rule.
inline constexpr int most_states = 2;

/// Kingma and Ba 2015, algorithm 1; with decoupled_decay AdamW, Loshchilov and Hutter 2019, algorithm 2.
struct Adam {
  static constexpr int state_count = 2;  ///< How many it keeps.
  double beta1 = 0.9;                    ///< Decay rate of the first moment.
  double beta2 = 0.999;                  ///< Of the second.
  float epsilon = 1e-8F;                 ///< Added to the second's root.
  float weight_decay = 0;                ///< Times the weight.
  bool decoupled_decay = true;           ///< Otherwise decay is added to the gradient (L2).
  bool bias_correction = true;           ///< Moments are corrected for their start at zero.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return decoupled_decay ? "AdamW" : "Adam"; }
  /// What they are.
  [[nodiscard]] std::vector<State> states() const { return {{"exp_avg"}, {"exp_avg_sq"}}; }
};

/// Stochastic gradient descent. Decay is added to the gradient, here and in the rules that follow.
struct Sgd {
  static constexpr int state_count = 0;  ///< How many it keeps.
  float weight_decay = 0;                ///< Times the weight, in the gradient.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "SGD"; }
  /// What they are.
  [[nodiscard]] std::vector<State> states() const { return {}; }
};

/// With momentum as PyTorch has it: the buffer starts as the first gradient, then takes momentum times itself and
/// 1 - dampening times the gradient. With nesterov (Sutskever et al. 2013) a step goes along the gradient and momentum
/// times the buffer.
struct Momentum {
  static constexpr int state_count = 1;  ///< How many it keeps.
  float momentum = 0;                    ///< As above.
  double dampening = 0;                  ///< As above.
  float weight_decay = 0;                ///< Times the weight, in the gradient.
  bool nesterov = false;                 ///< As above.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "SGD"; }
  /// What they are.
  [[nodiscard]] std::vector<State> states() const { return {{"momentum_buffer"}}; }
};

/// Duchi, Hazan and Singer 2011. The rate of update t is divided by 1 + (t - 1) rate_decay.
struct Adagrad {
  static constexpr int state_count = 1;  ///< How many it keeps.
  float epsilon = 1e-10F;                ///< Added to the sum's root.
  float weight_decay = 0;                ///< Times the weight, in the gradient.
  float rate_decay = 0;                  ///< As above.
  float initial_sum = 0;                 ///< Of squares.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "Adagrad"; }
  /// What they are.
  [[nodiscard]] std::vector<State> states() const { return {{"sum", initial_sum}}; }
};

/// Tieleman and Hinton 2012.
struct RmsProp {
  static constexpr int state_count = 1;  ///< How many it keeps.
  double alpha = 0.99;                   ///< Decay rate of the mean of squares.
  float epsilon = 1e-8F;                 ///< Added to its root.
  float weight_decay = 0;                ///< Times the weight, in the gradient.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "RMSprop"; }
  /// What they are.
  [[nodiscard]] std::vector<State> states() const { return {{"square_avg"}}; }
};

/// What RmsProp would go, added up in a buffer that decays.
struct RmsPropMomentum {
  static constexpr int state_count = 2;  ///< How many it keeps.
  RmsProp plain;                         ///< What comes into the buffer.
  float momentum = 0;                    ///< What is left of the buffer.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "RMSprop"; }
  /// What they are.
  [[nodiscard]] std::vector<State> states() const { return {{"square_avg"}, {"momentum_buffer"}}; }
};

/// Chen et al. 2023, algorithm 2. Decay is apart from the gradient, as AdamW's.
struct Lion {
  static constexpr int state_count = 1;  ///< How many it keeps.
  double beta1 = 0.9;                    ///< What the average weighs in the direction.
  double beta2 = 0.999;                  ///< Decay rate of the average.
  float weight_decay = 0;                ///< Times the weight.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return "Lion"; }
  /// What they are.
  [[nodiscard]] std::vector<State> states() const { return {{"exp_avg"}}; }
};

/// What a rule of the program's own updates in one call: some elements of one parameter, in fp32.
struct CustomRuleElements {
  std::span<float> master;          ///< To be updated.
  std::span<float const> gradient;  ///< Of the mean loss, neither scaled nor too long: divided and clipped.
  std::array<std::span<float>, most_states> states;  ///< As declared; the rest is empty.
  float learning_rate = 0;                           ///< The schedule's, times the parameter's factor.
  float weight_decay_factor = 1;                     ///< The parameter's.
  std::int64_t applied = 0;                          ///< Which update this is: 1 is the first.
};

/// A rule of the program's own, for CPUs. `update` is called once for every few hundred elements of a parameter, on the
/// thread that steps. Which elements come together depends on stage and world size, so it must treat each by itself:
/// then all stages are equal, bit for bit. What it throws, step() throws. It outlives the engine, and is called by
/// several threads at once where ranks are threads.
struct CustomRule {
  std::string type;                                       ///< In messages, plans and reports.
  std::vector<State> kept_states;                         ///< At most most_states.
  std::function<void(CustomRuleElements const&)> update;  ///< Updates master and states.
  /// The type in a stage file.
  [[nodiscard]] std::string_view name() const { return type; }
  /// What they are.
  [[nodiscard]] std::vector<State> states() const { return kept_states; }
};

/// One of them. Decay rates are fp64, because what a rule multiplies by is one minus a rate: taken in fp64, as PyTorch
/// takes it, and rounded once.
using Rule = std::variant<Adam, Sgd, Momentum, Adagrad, RmsProp, RmsPropMomentum, Lion, CustomRule>;

/// The optimizer.
struct Update {
  Rule rule;                       ///< How an element is updated.
  std::int64_t rounding_seed = 0;  ///< Of stochastic rounding, where masters are bf16.
};

/// The type in a stage file, or what a program calls its own.
[[nodiscard]] ZEROTH_EXPORT std::string_view name_of(Rule const& rule) noexcept;
/// At most most_states.
[[nodiscard]] ZEROTH_EXPORT std::vector<State> states_of(Rule const& rule);
/// How many states_of() has, without making them.
[[nodiscard]] ZEROTH_EXPORT int state_count(Rule const& rule) noexcept;
/// For StepRules::betas.
[[nodiscard]] ZEROTH_EXPORT std::array<double, 2> betas_of(Rule const& rule) noexcept;

/// Elements [begin, end) share these factors: one parameter's part of a shard.
struct Segment {
  std::int64_t begin = 0;          ///< In the arrays of the update.
  std::int64_t end = 0;            ///< In the same.
  float learning_rate_factor = 1;  ///< Times the schedule's rate.
  float weight_decay_factor = 1;   ///< Times the rule's decay.
  std::int64_t element = 0;  ///< Place of the first one in the model: what the noise of stochastic rounding follows.
};

/// What one update works on.
struct UpdateArgs {
  void* master = nullptr;                   ///< [count]
  Dtype master_dtype = Dtype::fp32;         ///< fp32; or bf16: the parameter itself then, and `parameter` is null
  std::array<void*, most_states> states{};  ///< [count] each; as many as the rule has
  Dtype states_dtype = Dtype::fp32;         ///< fp32; or bf16 where masters are
  void const* gradient = nullptr;           ///< [count]
  Dtype gradient_dtype = Dtype::fp32;       ///< fp32, bf16 or fp16
  void* parameter = nullptr;  ///< [count] of `parameter_dtype`, rounded from the master; null if master is all there is
  Dtype parameter_dtype = Dtype::fp32;   ///< fp32, bf16 or fp16
  std::int64_t count = 0;                ///< Elements of each array.
  std::span<Segment const> segments;     ///< Ascending, disjoint; elements in none (padding) are left alone.
  Update const* update = nullptr;        ///< The optimizer.
  StepScalars const* scalars = nullptr;  ///< Read when the kernel runs. Does nothing where `skip` is set.
};

/// One update by `args.update`'s rule. Element-wise IEEE operations without contraction: the same bits from AVX-512,
/// AVX2 and plain code. Reads and writes each stream once: for Adam 28 bytes an element with fp32 gradients and masters
/// alone. Runs on the calling thread.
///
/// Masters and states of bf16 are widened, updated in fp32 and rounded stochastically. Their noise is a function of
/// Update::rounding_seed, StepScalars::applied and Segment::element alone.
ZEROTH_EXPORT void update(UpdateArgs const& args);

}  // namespace zeroth::optim
