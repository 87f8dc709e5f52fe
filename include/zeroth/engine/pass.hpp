// SPDX-License-Identifier: Apache-2.0
/// Once through the model: micro-steps and evaluation passes, as ranges that nobody can miscount.
#pragma once
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <thread>

#include "zeroth/core/export.hpp"
#include "zeroth/core/phase.hpp"
#include "zeroth/core/random.hpp"
#include "zeroth/engine/guards.hpp"
#include "zeroth/engine/report.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth {

/// How a reported loss counts.
struct LossOptions {
  float weight = 1;  ///< Against a full batch: 0.5 if half of the targets are padding.
};

/// A mean loss that the device computes.
struct DeviceLoss {
  /// Where, on the engine's device: written on the compute stream before the micro-step's gradients, and left alone
  /// until the next step has opened its first unit.
  float const* mean;
};

namespace detail {
/// Which of the messages between stages of a pipeline.
enum class Message : std::uint8_t { input, output, output_gradient, input_gradient };
/// Where a message is.
struct MessageMemory {
  void* data;
  std::int64_t samples, per_sample;
};
/// Says that a pass is the next action of a pipeline's schedule.
struct NextAction {};
/// What an evaluation knows of itself.
struct EvaluationRecord {
  EngineState* engine;
  std::uint64_t id;                        ///< Distinguishes it from all others of the engine.
  int passes;                              ///< Of this rank: one for each chunk of its stage.
  int chunks = 1;                          ///< Of its stage.
  int done = 0;                            ///< Of `passes`.
  optim::StepSums mine{};                  ///< This rank's sums so far.
  std::optional<optim::StepSums> total{};  ///< Of all ranks, once all passes are done.
};
}  // namespace detail

/// Once through the model.
class ZEROTH_EXPORT AnyPass {
 public:
  AnyPass(AnyPass const&) = delete;
  AnyPass& operator=(AnyPass const&) = delete;
  /// Makes `unit` readable and prefetches those after it; another order than the model's works, and counts as misses.
  /// Guards of other units may be open, as a root's is around its children's: up to 16, as long as parameter slots
  /// suffice. Throws ContractError otherwise, and while a forward guard of this unit is open. Waits on the CPU until
  /// the unit is there.
  [[nodiscard]] AnyForward forward(Unit unit) { return AnyForward{open_forward(unit)}; }
  /// Where this rank's batch starts in the sample stream that all ranks share. Order: step, micro-step,
  /// AnyEngine::place(); every evaluation has a stream of its own. Not collective.
  [[nodiscard]] std::int64_t first_sample() const noexcept;
  /// Is this the first run of a micro-step that runs twice (zeroth.replay_every)? What it computes is only compared
  /// with. A program whose random numbers go on from call to call keeps their state here, and sets it back in the next
  /// pass. Not collective.
  [[nodiscard]] bool runs_again() const noexcept;
  /// Adds to `metric` of this step or evaluation: correct answers and answers, say. Travels with the loss, as doubles
  /// that are there from the start: no collective more. As often as wanted until the pass ends, and not on every rank
  /// alike: not collective. Throws ContractError for another engine's metric and a weight that is negative or not
  /// finite.
  void report_metric(Metric metric, double sum, double weight = 1);

 protected:
  explicit AnyPass(detail::EngineState& engine);                             ///< A micro-step.
  explicit AnyPass(detail::EvaluationRecord& evaluation);                    ///< An evaluation pass.
  AnyPass(detail::EngineState& engine, detail::NextAction);                  ///< The next action of schedule().
  [[nodiscard]] Phase action_phase() const noexcept;                         ///< What Work::phase() says.
  [[nodiscard]] int action_chunk() const noexcept;                           ///< What Work::chunk() says.
  [[nodiscard]] int action_micro_step() const noexcept;                      ///< What Work::micro_step() says.
  [[nodiscard]] int action_slot() const noexcept;                            ///< What Work::slot() says.
  [[nodiscard]] bool is_first_chunk() const noexcept;                        ///< What Work::first() says.
  [[nodiscard]] bool is_last_chunk() const noexcept;                         ///< What Work::last() says.
  [[nodiscard]] std::span<Unit const> action_units() const noexcept;         ///< What Work::units() says.
  [[nodiscard]] detail::MessageMemory message(detail::Message which) const;  ///< What Work's views are of.
  /// As report_loss(), in an action of the last stage that goes forward.
  [[nodiscard]] float report_action_loss(float mean, LossOptions const& options);
  ~AnyPass();
  [[nodiscard]] detail::Guard open_forward(Unit unit);   ///< What forward() makes a guard of.
  [[nodiscard]] detail::Guard open_backward(Unit unit);  ///< What AnyMicroStep::backward() makes a guard of.
  [[nodiscard]] detail::Guard open_inputs(Unit unit);    ///< What Work::inputs() makes a guard of.
  [[nodiscard]] detail::Guard open_weights(Unit unit);   ///< What Work::weights() makes a guard of.
  /// Takes the mean loss of this batch, once, and returns the seed: what to multiply that mean's gradient by (loss
  /// scale and weight). The engine divides by ranks and micro-steps; the caller never does. With a dynamic loss scale
  /// the first one of a step waits for the step before, which decides on the scale.
  [[nodiscard]] float report_loss(float mean, LossOptions const& options = {});
  /// The same for a mean that the device computes: no host waits for that.
  [[nodiscard]] float report_loss(DeviceLoss loss, LossOptions const& options = {});
  /// The random numbers of a sample of this micro-batch in this step, for dropout and the like: those of the model's
  /// seed, of the steps completed so far and of sample first_sample() + `row`. `use` is the program's: another number
  /// for each place that draws. The same in every action and run of a micro-step, so backward needs no mask that was
  /// kept, and on any number of ranks, at every stage, on every mesh, before and after a restore. Samples of one
  /// micro-batch are consecutive, so who has that of row 0 has all. Any thread may ask while the pass is open. Not
  /// collective. Throws ContractError for a row outside [0, AnyEngine::micro_batch()).
  [[nodiscard]] Random random(std::int64_t row, std::uint32_t use) const;
  void skip();  ///< No data here this time: joins every collective, weighs 0.
  /// Unused here this time, though perhaps not on other ranks: an expert, an image tower. Before the next unit's turn.
  /// Or after forward, if backward does not reach it: before the next unit's backward turn; after that all ranks must
  /// skip it, it is not gathered for that, and needs a gradient slot as a late backward() does.
  void skip(Unit unit);

 private:
  detail::EngineState* engine_;
  std::thread::id begun_by_;
  int exceptions_;  // in flight on that thread
};

/// What forward code takes that training and evaluation share.
template <Element T>
class Pass : public AnyPass {
 public:
  /// As AnyPass::forward, with types.
  [[nodiscard]] Forward<T> forward(Unit unit) { return Forward<T>{this->open_forward(unit)}; }

 protected:
  using AnyPass::AnyPass;
  ~Pass() = default;
};

/// Forward and backward on one micro-batch.
class [[nodiscard]] AnyMicroStep final : public AnyPass {
 public:
  using Source = detail::EngineState;                         ///< What Passes makes it of.
  explicit AnyMicroStep(Source& engine) : AnyPass{engine} {}  ///< For Passes: the engine's next one.
  /// Makes `unit` readable, and its gradients writable. Every unit has as many backward turns as
  /// UnitOptions::uses_per_micro_step says, frozen ones too, in reverse order of the model's: in another order
  /// gradients are kept for longer, and ContractError is thrown when that takes more than zeroth.gradient_slots.
  /// Otherwise as forward().
  [[nodiscard]] AnyBackward backward(Unit unit) { return AnyBackward{open_backward(unit)}; }
  using AnyPass::random;
  using AnyPass::report_loss;
  using AnyPass::skip;
};
/// As AnyMicroStep, for parameters of type T and gradients of type G.
template <Element T, GradientOf<T> G>
class [[nodiscard]] MicroStep final : public Pass<T> {
 public:
  using Source = detail::EngineState;                      ///< What Passes makes it of.
  explicit MicroStep(Source& engine) : Pass<T>{engine} {}  ///< For Passes: the engine's next one.
  /// As AnyMicroStep::backward, with types.
  [[nodiscard]] Backward<T, G> backward(Unit unit) { return Backward<T, G>{this->open_backward(unit)}; }
  using AnyPass::random;
  using AnyPass::report_loss;
  using AnyPass::skip;
};

/// Forward through the units of a chunk of this rank's stage: what an action of Engine::schedule() and an evaluation
/// pass have in common, so that one function can be written for both. Views lie where messages are received and sent
/// from: nothing is copied. What was written to output() is sent when the action or the pass ends. Without a pipeline
/// there is one chunk, the first and the last.
template <Element T>
class StagePass : public Pass<T> {
 public:
  /// Counted from the first units of the model on. A stage has one, or zeroth.pipeline.chunks.
  [[nodiscard]] int chunk() const noexcept { return this->action_chunk(); }
  [[nodiscard]] bool first() const noexcept { return this->is_first_chunk(); }  ///< Does this chunk read the batch?
  [[nodiscard]] bool last() const noexcept { return this->is_last_chunk(); }    ///< Does this chunk have the loss?
  /// The units of this chunk, in the order of forward. They live as long as the engine.
  [[nodiscard]] std::span<Unit const> units() const noexcept { return this->action_units(); }
  /// What the chunk before has sent, [samples, UnitOptions::input_per_sample]: until the last action of this micro-step
  /// in this chunk ends, and in an evaluation until the pass does, which waits for it here. Throws ContractError in the
  /// first chunk.
  [[nodiscard]] View<T const, 2> input() const { return view<T const>(detail::Message::input); }
  /// Where an action or pass that goes forward writes what the next chunk is sent. A program that asks for it promises
  /// to write all of it. Throws ContractError in the last chunk, and in other phases.
  [[nodiscard]] View<T, 2> output() const { return view<T>(detail::Message::output); }

 protected:
  using Pass<T>::Pass;
  ~StagePass() = default;
  /// Of a message's memory.
  template <class E>
  [[nodiscard]] View<E, 2> view(detail::Message which) const {
    auto const memory = this->message(which);
    return {static_cast<E*>(memory.data), {memory.samples, memory.per_sample}};
  }
};

/// An action of Engine::schedule(): a phase of one micro-step through the units of a chunk. Where an action ends, what
/// it wrote to output() or input_gradient() is sent.
template <Element T, GradientOf<T> G>
class [[nodiscard]] Work final : public StagePass<T> {
 public:
  using Source = detail::EngineState;  ///< What Passes makes it of.
  /// For Passes: the engine's next one.
  explicit Work(Source& engine) : StagePass<T>{engine, detail::NextAction{}} {}
  using AnyPass::random;
  [[nodiscard]] Phase phase() const noexcept { return this->action_phase(); }          ///< What it does.
  [[nodiscard]] int micro_step() const noexcept { return this->action_micro_step(); }  ///< Counted in the step, from 0.
  /// Which of AnyEngine::in_flight() tapes is this micro-step's in this chunk: from its forward action to its last one.
  [[nodiscard]] int slot() const noexcept { return this->action_slot(); }
  /// As AnyMicroStep::backward, with types. A unit that runs forward several times declares that by
  /// UnitOptions::uses_per_micro_step.
  [[nodiscard]] Backward<T, G> backward(Unit unit) { return Backward<T, G>{this->open_backward(unit)}; }
  /// In an action of Phase::backward_inputs: makes `unit` readable, for the gradient by its input. Otherwise as
  /// forward().
  [[nodiscard]] Forward<T> inputs(Unit unit) { return Forward<T>{this->open_inputs(unit)}; }
  /// In an action of Phase::backward_weights: makes the unit's gradients writable. Parameters cannot be read, and none
  /// are gathered.
  [[nodiscard]] Weights<G> weights(Unit unit) { return Weights<G>{this->open_weights(unit)}; }
  /// Takes the mean loss of this batch, once, in a forward action of the last chunk. Returns the seed: what the program
  /// multiplies that mean's gradient by, in backward of this micro-step. What stages send up carries it.
  [[nodiscard]] float report_loss(float mean, LossOptions const& options = {}) {
    return this->report_action_loss(mean, options);
  }
  /// The gradient by output(), from the action that is the first to read it until the last one of this micro-step in
  /// this chunk ends. Throws ContractError in the last chunk, and in forward.
  [[nodiscard]] View<T const, 2> output_gradient() const {
    return this->template view<T const>(detail::Message::output_gradient);
  }
  /// Where an action of Phase::backward or Phase::backward_inputs writes the gradient by input(), as in output().
  /// Throws ContractError in the first chunk, and in other phases.
  [[nodiscard]] View<T, 2> input_gradient() const { return this->template view<T>(detail::Message::input_gradient); }
};

/// What a stage of a pipeline was sent, or sends: [samples, UnitOptions::input_per_sample] in the engine's
/// compute_dtype().
struct AnyMessage {
  void* data;               ///< The first element.
  std::int64_t samples;     ///< Of a micro-batch.
  std::int64_t per_sample;  ///< Elements of each.
};

/// As StagePass, for programs that learn dtypes and shapes when they run.
class AnyStagePass : public AnyPass {
 public:
  [[nodiscard]] int chunk() const noexcept { return action_chunk(); }                    ///< As StagePass::chunk().
  [[nodiscard]] bool first() const noexcept { return is_first_chunk(); }                 ///< As StagePass::first().
  [[nodiscard]] bool last() const noexcept { return is_last_chunk(); }                   ///< As StagePass::last().
  [[nodiscard]] std::span<Unit const> units() const noexcept { return action_units(); }  ///< As StagePass::units().
  /// To be read: as StagePass::input().
  [[nodiscard]] AnyMessage input() const { return of(detail::Message::input); }
  [[nodiscard]] AnyMessage output() const { return of(detail::Message::output); }  ///< As StagePass::output().

 protected:
  using AnyPass::AnyPass;
  ~AnyStagePass() = default;
  /// Where it is.
  [[nodiscard]] AnyMessage of(detail::Message which) const {
    auto const memory = message(which);
    return {memory.data, memory.samples, memory.per_sample};
  }
};

/// As Work, for programs that learn dtypes and shapes when they run.
class [[nodiscard]] AnyWork final : public AnyStagePass {
 public:
  using Source = detail::EngineState;  ///< What Passes makes it of.
  /// For Passes: the engine's next one.
  explicit AnyWork(Source& engine) : AnyStagePass{engine, detail::NextAction{}} {}
  using AnyPass::random;
  [[nodiscard]] Phase phase() const noexcept { return action_phase(); }          ///< As Work::phase().
  [[nodiscard]] int micro_step() const noexcept { return action_micro_step(); }  ///< As Work::micro_step().
  [[nodiscard]] int slot() const noexcept { return action_slot(); }              ///< As Work::slot().
  [[nodiscard]] AnyBackward backward(Unit unit) { return AnyBackward{open_backward(unit)}; }  ///< As Work::backward().
  [[nodiscard]] AnyForward inputs(Unit unit) { return AnyForward{open_inputs(unit)}; }        ///< As Work::inputs().
  [[nodiscard]] AnyWeights weights(Unit unit) { return AnyWeights{open_weights(unit)}; }      ///< As Work::weights().
  /// As Work::report_loss().
  [[nodiscard]] float report_loss(float mean, LossOptions const& options = {}) {
    return report_action_loss(mean, options);
  }
  /// To be read: as Work::output_gradient().
  [[nodiscard]] AnyMessage output_gradient() const { return of(detail::Message::output_gradient); }
  /// As Work::input_gradient().
  [[nodiscard]] AnyMessage input_gradient() const { return of(detail::Message::input_gradient); }
};

/// Forward only, through the units of a chunk of this rank's stage. `backward` does not exist here, so it does not
/// compile.
class [[nodiscard]] AnyEvaluationPass final : public AnyStagePass {
 public:
  using Source = detail::EvaluationRecord;  ///< What Passes makes it of.
  /// For Passes: the evaluation's next one.
  explicit AnyEvaluationPass(Source& evaluation) : AnyStagePass{evaluation} {}
  /// Takes the mean loss of this rank's batch, once, in the last chunk: AnyEvaluation::mean_loss() is made of it.
  void report_loss(float mean, LossOptions const& options = {}) {
    static_cast<void>(AnyPass::report_loss(mean, options));
  }
};
/// As AnyEvaluationPass, for parameters of type T, through the units of a chunk of this rank's stage.
template <Element T>
class [[nodiscard]] EvaluationPass final : public StagePass<T> {
 public:
  using Source = detail::EvaluationRecord;  ///< What Passes makes it of.
  /// For Passes: the evaluation's next one.
  explicit EvaluationPass(Source& evaluation) : StagePass<T>{evaluation} {}
  /// Takes the mean loss of this rank's batch, once, in the last chunk: AnyEvaluation::mean_loss() is made of it.
  void report_loss(float mean, LossOptions const& options = {}) {
    static_cast<void>(AnyPass::report_loss(mean, options));
  }
};

/// For range-for: each iteration makes one pass and ends it. The count is the same on all ranks.
template <class P>
struct [[nodiscard]] Passes {
  /// Goes forward once. A pass begins where it is dereferenced, and has to end before it is advanced.
  struct Iterator {
    typename P::Source* source;                               ///< Who runs the passes: an engine or an evaluation.
    int left;                                                 ///< Passes, this one included.
    [[nodiscard]] P operator*() const { return P{*source}; }  ///< Begins the pass. Throws ContractError out of turn.
    /// Counts. Does nothing to the engine.
    Iterator& operator++() noexcept {
      --left;
      return *this;
    }
    friend bool operator==(Iterator const& at, std::default_sentinel_t) noexcept { return at.left == 0; }
  };
  [[nodiscard]] Iterator begin() const noexcept { return {source, count}; }  ///< Of all passes. Begins none yet.
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }  ///< After the last pass.
  typename P::Source* source;  ///< Who runs the passes; outlives the range.
  int count;                   ///< Passes.
};

/// A range of evaluation passes, and their loss. All ranks may leave it by `break` after the same pass, or before that
/// pass has done anything; it then has no loss, and the next evaluation() ends it. Outlives its passes.
class [[nodiscard]] AnyEvaluation {
 public:
  /// What AnyEngine::evaluation() makes of what the engine has begun.
  explicit AnyEvaluation(detail::EvaluationRecord const& record) noexcept : record_{record} {}
  [[nodiscard]] auto begin() const noexcept { return passes<AnyEvaluationPass>().begin(); }  ///< As Passes::begin().
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }                  ///< After the last pass.
  /// Weighted, over all passes and ranks of all stages; NaN if nothing had any weight. The end of the last pass waited
  /// for it. Stays what it is whatever the engine does later. Throws ContractError before all passes are done. Not
  /// collective.
  [[nodiscard]] ZEROTH_EXPORT float mean_loss() const;
  /// As mean_loss(): of what its passes gave to report_metric().
  [[nodiscard]] ZEROTH_EXPORT MetricMeans metrics() const;

 protected:
  /// The range, its passes being P.
  template <class P>
  [[nodiscard]] Passes<P> passes() const noexcept {
    return {&record_, record_.passes};
  }

 private:
  [[nodiscard]] ZEROTH_EXPORT optim::StepSums const& total(char const* call) const;
  mutable detail::EvaluationRecord record_;  // its passes write to it
};
/// As AnyEvaluation, for parameters of type T.
template <Element T>
class [[nodiscard]] Evaluation : public AnyEvaluation {
 public:
  using AnyEvaluation::AnyEvaluation;  ///< As that one.
  /// As Passes::begin().
  [[nodiscard]] auto begin() const noexcept { return this->template passes<EvaluationPass<T>>().begin(); }
};

}  // namespace zeroth
