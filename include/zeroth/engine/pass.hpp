// SPDX-License-Identifier: Apache-2.0
/// Micro-steps and evaluation passes, as ranges.
#pragma once
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <thread>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/core/phase.hpp"
#include "zeroth/core/random.hpp"
#include "zeroth/engine/guards.hpp"
#include "zeroth/engine/report.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth {

/// How a reported loss is weighted.
struct LossOptions {
  /// The weight of this mean among those of other ranks and micro-steps: the number of tokens in it, divided by that of
  /// a full micro-batch. The step's loss and gradients are then those of the mean over all tokens of the global batch,
  /// wherever they are. 0.5 if half of the targets are padding; 1 for batches without padding.
  float weight = 1;
};

/// A mean loss that the device computes.
struct DeviceLoss {
  /// Address on the engine's device. Write it on the compute stream before the micro-step's gradients, and do not
  /// modify it until the next step has opened its first unit.
  float const* mean;
};

/// The factor for the gradient of a loss, whose loss scale the device knows and the host need not wait for.
struct DeviceSeed {
  float const* loss_scale;  ///< Address on the engine's device. Read it on the compute stream, in this micro-step.
  float weight = 1;         ///< LossOptions::weight.
  float prescale = 1;       ///< The engine's part.
  /// The factor: what report_loss() returns. For kernels.
  [[nodiscard]] ZEROTH_HOST_DEVICE float value() const noexcept { return *loss_scale * weight * prescale; }
};

namespace detail {
/// A kind of message between pipeline stages.
enum class Message : std::uint8_t { input, output, output_gradient, input_gradient };
/// A message's memory.
struct MessageMemory {
  void* data;
  std::int64_t samples, per_sample;
};
/// Tag: the pass is the next action of a pipeline's schedule.
struct NextAction {};
/// The state of an evaluation.
struct EvaluationRecord {
  EngineState* engine;
  std::uint64_t id;                        ///< Unique within the engine.
  int passes;                              ///< This rank's passes: one for each chunk of its stage.
  int chunks = 1;                          ///< Chunks of its stage.
  int done = 0;                            ///< Passes completed.
  optim::StepSums mine{};                  ///< This rank's sums so far.
  std::optional<optim::StepSums> total{};  ///< Sums over all ranks, once all passes are done.
};
}  // namespace detail

/// One pass through the model.
class ZEROTH_EXPORT AnyPass {
 public:
  AnyPass(AnyPass const&) = delete;
  AnyPass& operator=(AnyPass const&) = delete;
  /// Gathers `unit`'s parameters, prefetches the next units, and returns a guard that keeps the parameters readable.
  ///
  /// An order other than the model's works, but counts as prefetch misses. Guards may nest, as a root's around its
  /// children's: up to 16, as far as parameter slots suffice. Throws ContractError otherwise, or if a forward guard of
  /// this unit is open. On the CPU it waits until the unit is gathered.
  [[nodiscard]] AnyForward forward(Unit unit) { return AnyForward{open_forward(unit)}; }
  /// Index of this rank's first sample in the sample stream that all ranks share. The stream is ordered by step,
  /// micro-step and AnyEngine::place(); every evaluation has its own stream. Not collective.
  [[nodiscard]] std::int64_t first_sample() const noexcept;
  /// Whether this is the first run of a micro-step that runs twice (zeroth.replay_every), whose results are only
  /// compared. A program with stateful random numbers saves their state here, and restores it in the next pass. Not
  /// collective.
  [[nodiscard]] bool runs_again() const noexcept;
  /// Adds to `metric` of this step or evaluation, such as correct answers and answers. Sent with the loss, as doubles
  /// that are always part of it, so it costs no collective. Call it as often as needed until the pass ends; not
  /// collective, so ranks may differ. Throws ContractError for a metric of another engine, and for a weight that is
  /// negative or not finite.
  void report_metric(Metric metric, double sum, double weight = 1);

 protected:
  explicit AnyPass(detail::EngineState& engine);                             ///< Begins a micro-step.
  explicit AnyPass(detail::EvaluationRecord& evaluation);                    ///< Begins an evaluation pass.
  AnyPass(detail::EngineState& engine, detail::NextAction);                  ///< Begins the next action of schedule().
  [[nodiscard]] Phase action_phase() const noexcept;                         ///< See Work::phase().
  [[nodiscard]] int action_chunk() const noexcept;                           ///< See Work::chunk().
  [[nodiscard]] int action_micro_step() const noexcept;                      ///< See Work::micro_step().
  [[nodiscard]] int action_slot() const noexcept;                            ///< See Work::slot().
  [[nodiscard]] bool is_first_chunk() const noexcept;                        ///< See Work::first().
  [[nodiscard]] bool is_last_chunk() const noexcept;                         ///< See Work::last().
  [[nodiscard]] std::span<Unit const> action_units() const noexcept;         ///< See Work::units().
  [[nodiscard]] detail::MessageMemory message(detail::Message which) const;  ///< The memory of Work's views.
  /// Like report_loss(), in a forward action of the last stage.
  [[nodiscard]] float report_action_loss(float mean, LossOptions const& options);
  ~AnyPass();
  [[nodiscard]] detail::Guard open_forward(Unit unit);   ///< Opens the unit for forward().
  [[nodiscard]] detail::Guard open_backward(Unit unit);  ///< Opens the unit for AnyMicroStep::backward().
  [[nodiscard]] detail::Guard open_inputs(Unit unit);    ///< Opens the unit for Work::inputs().
  [[nodiscard]] detail::Guard open_weights(Unit unit);   ///< Opens the unit for Work::weights().
  /// Reports the batch's mean loss, once, and returns the factor to multiply that mean's gradient by. It contains the
  /// loss scale and the weight; treat it as opaque.
  ///
  /// The engine divides by ranks and micro-steps; the caller must not. With a dynamic loss scale, the first call of a
  /// step waits for the previous step, which determines the scale.
  [[nodiscard]] float report_loss(float mean, LossOptions const& options = {});
  /// Reports a mean loss that the device computes. The host does not wait for it.
  [[nodiscard]] float report_loss(DeviceLoss loss, LossOptions const& options = {});
  /// Like report_loss(), for kernels that compute the factor themselves: never waits, whatever the loss scale. Throws
  /// ContractError with zeroth.delayed_update, whose steps use a scale that the device has replaced already.
  [[nodiscard]] DeviceSeed report_loss_on_device(DeviceLoss loss, LossOptions const& options = {});
  /// Random numbers of a sample of this micro-batch in this step, such as for dropout. They depend on the model's seed,
  /// the number of completed steps, and the sample first_sample() + `row`. `use` is the program's number of the place
  /// that draws; each place needs its own. They are the same in every action and run of a micro-step, so backward needs
  /// no stored mask, and on any number of ranks, at every stage, on every mesh, and after a restore. Samples of a
  /// micro-batch are consecutive, so those of all rows follow from row 0's. Any thread may call it while the pass is
  /// open. Not collective. Throws ContractError for a row outside [0, AnyEngine::micro_batch()).
  [[nodiscard]] Random random(std::int64_t row, std::uint32_t use) const;
  void skip();  ///< This rank has no data: joins every collective with weight 0.
  /// Declares that this rank does not use `unit` in this micro-step, though others may: an expert, an image tower. Call
  /// it before the next unit's visit. Or call it after forward, if backward does not reach the unit, before the next
  /// unit's backward visit. After that all ranks must skip it; it is not gathered for that, and needs a gradient slot
  /// like a late backward().
  void skip(Unit unit);

 private:
  detail::EngineState* engine_;
  std::thread::id begun_by_;
  int exceptions_;  // in flight on that thread
};

/// The base class of training and evaluation passes, which forward code takes.
template <Element T>
class Pass : public AnyPass {
 public:
  /// Like AnyPass::forward(), with types.
  [[nodiscard]] Forward<T> forward(Unit unit) { return Forward<T>{this->open_forward(unit)}; }

 protected:
  using AnyPass::AnyPass;
  ~Pass() = default;
};

/// Forward and backward on one micro-batch.
class [[nodiscard]] AnyMicroStep final : public AnyPass {
 public:
  using Source = detail::EngineState;                         ///< The type from which Passes makes it.
  explicit AnyMicroStep(Source& engine) : AnyPass{engine} {}  ///< Used by Passes: begins the engine's next one.
  /// Like forward(), and makes `unit`'s gradients writable.
  ///
  /// Call it UnitOptions::uses_per_micro_step times for every unit, frozen units too, in reverse model order. Another
  /// order holds gradients longer; throws ContractError if that needs more than zeroth.gradient_slots.
  [[nodiscard]] AnyBackward backward(Unit unit) { return AnyBackward{open_backward(unit)}; }
  using AnyPass::random;
  using AnyPass::report_loss;
  using AnyPass::report_loss_on_device;
  using AnyPass::skip;
};
/// Like AnyMicroStep, for parameters of type T and gradients of type G.
template <Element T, GradientOf<T> G>
class [[nodiscard]] MicroStep final : public Pass<T> {
 public:
  using Source = detail::EngineState;                      ///< The type from which Passes makes it.
  explicit MicroStep(Source& engine) : Pass<T>{engine} {}  ///< Used by Passes: begins the engine's next one.
  /// Like AnyMicroStep::backward(), with types.
  [[nodiscard]] Backward<T, G> backward(Unit unit) { return Backward<T, G>{this->open_backward(unit)}; }
  using AnyPass::random;
  using AnyPass::report_loss;
  using AnyPass::report_loss_on_device;
  using AnyPass::skip;
};

/// Forward through the units of a chunk of this rank's stage: the common part of an action of Engine::schedule() and an
/// evaluation pass, so that one function can serve both. Views refer to the memory that messages are received in and
/// sent from; nothing is copied. output() is sent when the action or pass ends. Without a pipeline there is one chunk,
/// which is the first and the last.
template <Element T>
class StagePass : public Pass<T> {
 public:
  /// Index of the chunk in the model, from 0. A stage has one chunk, or zeroth.pipeline.chunks.
  [[nodiscard]] int chunk() const noexcept { return this->action_chunk(); }
  [[nodiscard]] bool first() const noexcept { return this->is_first_chunk(); }  ///< Whether this chunk reads the batch.
  [[nodiscard]] bool last() const noexcept { return this->is_last_chunk(); }  ///< Whether this chunk computes the loss.
  /// The units of this chunk, in forward order. They are valid as long as the engine exists.
  [[nodiscard]] std::span<Unit const> units() const noexcept { return this->action_units(); }
  /// The message of the previous chunk, [samples, UnitOptions::input_per_sample]. In training it is valid until the
  /// last action of this micro-step in this chunk ends. In an evaluation it is valid until the pass ends, and this call
  /// waits for it. Throws ContractError in the first chunk.
  [[nodiscard]] View<T const, 2> input() const { return view<T const>(detail::Message::input); }
  /// The memory for the message to the next chunk, in a forward action or pass. A program that requests it must write
  /// all of it. Throws ContractError in the last chunk, and in other phases.
  [[nodiscard]] View<T, 2> output() const { return view<T>(detail::Message::output); }

 protected:
  using Pass<T>::Pass;
  ~StagePass() = default;
  /// The view of a message.
  template <class E>
  [[nodiscard]] View<E, 2> view(detail::Message which) const {
    auto const memory = this->message(which);
    return {static_cast<E*>(memory.data), {memory.samples, memory.per_sample}};
  }
};

/// An action of Engine::schedule(): one phase of one micro-step through the units of a chunk. When it ends, what it
/// wrote to output() or input_gradient() is sent.
template <Element T, GradientOf<T> G>
class [[nodiscard]] Work final : public StagePass<T> {
 public:
  using Source = detail::EngineState;  ///< The type from which Passes makes it.
  /// Used by Passes: begins the engine's next one.
  explicit Work(Source& engine) : StagePass<T>{engine, detail::NextAction{}} {}
  using AnyPass::random;
  [[nodiscard]] Phase phase() const noexcept { return this->action_phase(); }          ///< The phase.
  [[nodiscard]] int micro_step() const noexcept { return this->action_micro_step(); }  ///< Index in the step, from 0.
  /// Index of this micro-step's tape in this chunk, below AnyEngine::in_flight(), from its forward action to its last
  /// one.
  [[nodiscard]] int slot() const noexcept { return this->action_slot(); }
  /// Like AnyMicroStep::backward(), with types. A unit that runs forward several times must declare that by
  /// UnitOptions::uses_per_micro_step.
  [[nodiscard]] Backward<T, G> backward(Unit unit) { return Backward<T, G>{this->open_backward(unit)}; }
  /// Only in Phase::backward_inputs. Like forward(): makes `unit` readable, to compute the gradient with respect to its
  /// input.
  [[nodiscard]] Forward<T> inputs(Unit unit) { return Forward<T>{this->open_inputs(unit)}; }
  /// Only in Phase::backward_weights. Makes the unit's gradients writable. Parameters cannot be read, and none are
  /// gathered.
  [[nodiscard]] Weights<G> weights(Unit unit) { return Weights<G>{this->open_weights(unit)}; }
  /// Reports the batch's mean loss, once, in a forward action of the last chunk. Returns the factor to multiply that
  /// mean's gradient by, in backward of this micro-step. Gradients that stages send back contain it.
  [[nodiscard]] float report_loss(float mean, LossOptions const& options = {}) {
    return this->report_action_loss(mean, options);
  }
  /// The gradient with respect to output(). It is valid from the first action that reads it until the last one of this
  /// micro-step in this chunk ends. Throws ContractError in the last chunk, and in forward.
  [[nodiscard]] View<T const, 2> output_gradient() const {
    return this->template view<T const>(detail::Message::output_gradient);
  }
  /// The memory for the gradient with respect to input(), in Phase::backward or Phase::backward_inputs; write it like
  /// output(). Throws ContractError in the first chunk, and in other phases.
  [[nodiscard]] View<T, 2> input_gradient() const { return this->template view<T>(detail::Message::input_gradient); }
};

/// A message that a pipeline stage receives or sends: [samples, UnitOptions::input_per_sample] in the engine's
/// compute_dtype().
struct AnyMessage {
  void* data;               ///< The first element.
  std::int64_t samples;     ///< Samples of a micro-batch.
  std::int64_t per_sample;  ///< Elements per sample.
};

/// Like StagePass, for programs whose dtypes and shapes are known at run time.
class AnyStagePass : public AnyPass {
 public:
  [[nodiscard]] int chunk() const noexcept { return action_chunk(); }                    ///< See StagePass::chunk().
  [[nodiscard]] bool first() const noexcept { return is_first_chunk(); }                 ///< See StagePass::first().
  [[nodiscard]] bool last() const noexcept { return is_last_chunk(); }                   ///< See StagePass::last().
  [[nodiscard]] std::span<Unit const> units() const noexcept { return action_units(); }  ///< See StagePass::units().
  /// Read only: see StagePass::input().
  [[nodiscard]] AnyMessage input() const { return of(detail::Message::input); }
  [[nodiscard]] AnyMessage output() const { return of(detail::Message::output); }  ///< See StagePass::output().

 protected:
  using AnyPass::AnyPass;
  ~AnyStagePass() = default;
  /// The memory of a message.
  [[nodiscard]] AnyMessage of(detail::Message which) const {
    auto const memory = message(which);
    return {memory.data, memory.samples, memory.per_sample};
  }
};

/// Like Work, for programs whose dtypes and shapes are known at run time.
class [[nodiscard]] AnyWork final : public AnyStagePass {
 public:
  using Source = detail::EngineState;  ///< The type from which Passes makes it.
  /// Used by Passes: begins the engine's next one.
  explicit AnyWork(Source& engine) : AnyStagePass{engine, detail::NextAction{}} {}
  using AnyPass::random;
  [[nodiscard]] Phase phase() const noexcept { return action_phase(); }          ///< See Work::phase().
  [[nodiscard]] int micro_step() const noexcept { return action_micro_step(); }  ///< See Work::micro_step().
  [[nodiscard]] int slot() const noexcept { return action_slot(); }              ///< See Work::slot().
  [[nodiscard]] AnyBackward backward(Unit unit) { return AnyBackward{open_backward(unit)}; }  ///< See Work::backward().
  [[nodiscard]] AnyForward inputs(Unit unit) { return AnyForward{open_inputs(unit)}; }        ///< See Work::inputs().
  [[nodiscard]] AnyWeights weights(Unit unit) { return AnyWeights{open_weights(unit)}; }      ///< See Work::weights().
  /// See Work::report_loss().
  [[nodiscard]] float report_loss(float mean, LossOptions const& options = {}) {
    return report_action_loss(mean, options);
  }
  /// Read only: see Work::output_gradient().
  [[nodiscard]] AnyMessage output_gradient() const { return of(detail::Message::output_gradient); }
  /// See Work::input_gradient().
  [[nodiscard]] AnyMessage input_gradient() const { return of(detail::Message::input_gradient); }
};

/// Forward only, through the units of a chunk of this rank's stage. It has no `backward`, so calling that does not
/// compile.
class [[nodiscard]] AnyEvaluationPass final : public AnyStagePass {
 public:
  using Source = detail::EvaluationRecord;  ///< The type from which Passes makes it.
  /// Used by Passes: begins the evaluation's next one.
  explicit AnyEvaluationPass(Source& evaluation) : AnyStagePass{evaluation} {}
  /// Reports the mean loss of this rank's batch, once, in the last chunk, for AnyEvaluation::mean_loss().
  void report_loss(float mean, LossOptions const& options = {}) {
    static_cast<void>(AnyPass::report_loss(mean, options));
  }
};
/// Like AnyEvaluationPass, for parameters of type T.
template <Element T>
class [[nodiscard]] EvaluationPass final : public StagePass<T> {
 public:
  using Source = detail::EvaluationRecord;  ///< The type from which Passes makes it.
  /// Used by Passes: begins the evaluation's next one.
  explicit EvaluationPass(Source& evaluation) : StagePass<T>{evaluation} {}
  /// Reports the mean loss of this rank's batch, once, in the last chunk, for AnyEvaluation::mean_loss().
  void report_loss(float mean, LossOptions const& options = {}) {
    static_cast<void>(AnyPass::report_loss(mean, options));
  }
};

/// A range for range-for: each iteration makes one pass and ends it. The number of passes is the same on all ranks.
template <class P>
struct [[nodiscard]] Passes {
  /// A single-pass iterator. A pass begins when the iterator is dereferenced, and must end before the iterator is
  /// incremented.
  struct Iterator {
    typename P::Source* source;                               ///< The engine or evaluation that runs the passes.
    int left;                                                 ///< Passes left, including this one.
    [[nodiscard]] P operator*() const { return P{*source}; }  ///< Begins the pass. Throws ContractError out of turn.
    /// Counts only; does not affect the engine.
    Iterator& operator++() noexcept {
      --left;
      return *this;
    }
    friend bool operator==(Iterator const& at, std::default_sentinel_t) noexcept { return at.left == 0; }
  };
  [[nodiscard]] Iterator begin() const noexcept { return {source, count}; }  ///< Starts no pass yet.
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }  ///< After the last pass.
  typename P::Source* source;  ///< The engine or evaluation that runs the passes. Must outlive the range.
  int count;                   ///< Number of passes.
};

/// A range of evaluation passes, and their loss. All ranks may `break` after the same pass, or before that pass has
/// done anything. The evaluation then has no loss, and the next evaluation() closes it. It must outlive its passes.
class [[nodiscard]] AnyEvaluation {
 public:
  /// Used by AnyEngine::evaluation().
  explicit AnyEvaluation(detail::EvaluationRecord const& record) noexcept : record_{record} {}
  [[nodiscard]] auto begin() const noexcept { return passes<AnyEvaluationPass>().begin(); }  ///< See Passes::begin().
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }                  ///< After the last pass.
  /// The weighted mean over all passes, and over the ranks of all stages; NaN if the total weight is 0. The end of the
  /// last pass has waited for it. Later calls on the engine do not change it. Throws ContractError before all passes
  /// are done. Not collective.
  [[nodiscard]] ZEROTH_EXPORT float mean_loss() const;
  /// Like mean_loss(), for the values passed to report_metric().
  [[nodiscard]] ZEROTH_EXPORT MetricMeans metrics() const;

 protected:
  /// The range with passes of type P.
  template <class P>
  [[nodiscard]] Passes<P> passes() const noexcept {
    return {&record_, record_.passes};
  }

 private:
  [[nodiscard]] ZEROTH_EXPORT optim::StepSums const& total(char const* call) const;
  mutable detail::EvaluationRecord record_;  // its passes write to it
};
/// Like AnyEvaluation, for parameters of type T.
template <Element T>
class [[nodiscard]] Evaluation : public AnyEvaluation {
 public:
  using AnyEvaluation::AnyEvaluation;  ///< The constructors of AnyEvaluation.
  /// See Passes::begin().
  [[nodiscard]] auto begin() const noexcept { return this->template passes<EvaluationPass<T>>().begin(); }
};

}  // namespace zeroth
