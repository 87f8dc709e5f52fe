// SPDX-License-Identifier: Apache-2.0
/// Decides which calls are legal. It knows the model and the declared order, but no memory and no other rank.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shard/replay.hpp"
#include "stage/order.hpp"
#include "stage/pipeline.hpp"
#include "zeroth/engine/pass.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// The number of micro-steps and actions in a step.
struct StepSize {
  int micro_steps = 1;
  std::int64_t actions = 2;  ///< Length of schedule().
};

/// The state machine of a step: what was called so far, and what may be called next. An illegal call throws
/// ContractError, which names the unit and both states, and changes nothing.
class Protocol {
 public:
  /// Maximum number of open guards of one engine.
  static constexpr std::size_t most_open_guards = 16;

  /// Model and order must outlive it. The first micro-step runs twice in every step whose number is a multiple of
  /// `replay_every`; 0 means never.
  Protocol(model::Description const& model, stage::Order const& order, StepSize step, std::int64_t replay_every = 0);

  // ---- the engine ----
  /// Makes every later call illegal: it rethrows the first error.
  void fail(std::exception_ptr error) noexcept;
  [[nodiscard]] std::exception_ptr const& failure() const noexcept { return failure_; }
  void check_usable(char const* call) const;
  void check_between_passes(char const* call) const;
  /// Legal between step() and the first micro-step of the next step.
  void check_between_steps(char const* call) const;
  /// Legal between the last micro-step of a step and step().
  void check_reduced(char const* call) const;
  [[nodiscard]] std::string state() const;  ///< Describes the engine's state, for messages.

  // ---- steps ----
  void check_step(std::optional<float> learning_rate) const;
  void end_step() noexcept;
  /// Parameters and their averages are exchanged, or exchanged back. Meanwhile only reading is legal.
  void swap_ema() noexcept { has_averages_ = !has_averages_; }
  void check_not_swapped(char const* call) const;
  /// Announces that states will be restored. Until end_restore() only that is legal.
  void begin_restore() noexcept { restoring_ = true; }
  /// Whether a restore has failed halfway.
  [[nodiscard]] bool is_restoring() const noexcept { return restoring_; }
  /// Reports that the states are those of `step`.
  void end_restore(std::int64_t step) noexcept;
  /// Like check_between_steps(), but also passes after a restore() that failed halfway.
  void check_restore() const;
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }     ///< Completed.
  [[nodiscard]] int micro_steps() const noexcept { return micro_steps_; }  ///< Completed, of this step.
  [[nodiscard]] bool is_between_steps() const noexcept { return micro_steps_ == 0 && actions_ == 0; }
  /// Whether the next micro-step will be the first run of two.
  [[nodiscard]] bool replay_is_due() const noexcept {
    return replay_every_ > 0 && micro_steps_ == 0 && !ran_once_ && (steps_ + 1) % replay_every_ == 0;
  }
  /// The run of the current micro-step.
  [[nodiscard]] shard::Run run() const noexcept { return run_; }

  // ---- passes ----
  void begin_micro_step();
  /// Begins `action`, the next one of the step's schedule, with the turns of `sweep`.
  void begin_action(stage::Action const& action, stage::Sweep const& sweep);
  /// Call before begin_action(): checks that an action is left.
  void check_begin_action() const;
  /// The open action of a pipeline's schedule; null if none is open.
  [[nodiscard]] stage::Action const* action() const noexcept { return action_ ? &*action_ : nullptr; }
  [[nodiscard]] std::int64_t actions() const noexcept { return actions_; }  ///< Completed, of this step.
  /// The program has asked for memory to write a message to.
  void note_written() noexcept { written_ = true; }
  void end_action(bool reports, bool writes);
  void check_action_loss(bool is_last) const;
  /// Checks that no message of a pipeline's step is in flight: no action of the step has begun, or all have ended.
  void check_no_message(char const* call) const;
  /// Checks that the open action has this message: it is one of `phases`, and `there` says that the chunk has it.
  /// Otherwise `why` is the reason.
  void check_message(char const* call, bool there, char const* why, std::initializer_list<Phase> phases) const;
  [[nodiscard]] std::uint64_t begin_evaluation(int passes);  ///< Returns its id.
  void begin_evaluation_pass(detail::EvaluationRecord& evaluation);
  [[nodiscard]] std::optional<stage::PassKind> pass() const noexcept { return pass_; }
  [[nodiscard]] detail::EvaluationRecord* evaluation() const noexcept { return evaluation_; }  ///< Null in training.
  void check_loss(LossOptions const& options) const;
  void check_metric(std::string_view name, double weight) const;
  void loss_reported() noexcept { loss_reported_ = true; }
  void check_end_of_pass(bool by_exception) const;
  /// Checks that every skipped unit has had its turns.
  void end_micro_step();
  /// Whether chunks have yet to take messages of this evaluation, so that its next pass must follow.
  void note_messages(bool under_way) noexcept { evaluation_messages_ = under_way; }
  /// Returns false for a pass that did nothing, which does not count. Any other pass must have a loss and an output.
  [[nodiscard]] bool end_evaluation_pass(bool reports, bool writes);
  void leave_pass() noexcept;  ///< Ends the pass, however it ended.

  // ---- guards ----
  void check_open(Phase phase, Unit unit) const;
  /// Begins the unit's next turn.
  [[nodiscard]] stage::Turn begin_turn(Phase phase, UnitId unit) noexcept;
  [[nodiscard]] std::uint64_t opened(stage::Turn const& turn);  ///< Returns the guard's id.
  /// The turn that this closes; nullopt if it was closed before.
  [[nodiscard]] std::optional<stage::Turn> closed(std::uint64_t guard) noexcept;
  void check_parameter(std::uint64_t guard, ModelId model, ParamId param) const;
  /// Returns the guard's unit.
  [[nodiscard]] UnitId check_gradient(std::uint64_t guard, ModelId model, ParamId param) const;
  /// Checks that `param`, with model `model`, belongs to this engine.
  void check_param(ModelId model, ParamId param, char const* call) const;

  // ---- skips ----
  /// Returns true if the place of the unit's backward turn has passed: the turn happens now, without parameters.
  [[nodiscard]] bool skip(Unit unit);
  void skip_pass();
  /// The next turn of a skipped unit before `position` in declared order.
  [[nodiscard]] std::optional<stage::Turn> next_skipped(std::int64_t position) noexcept;
  /// Call when all skipped turns before `position`, whose turn comes next, are settled.
  void arrive(std::int64_t position) noexcept { position_ = std::max(position_, position); }

 private:
  struct OpenGuard {
    std::uint64_t id;
    stage::Turn turn;
  };
  /// The progress of a unit in a pass.
  struct UnitProgress {
    int forwards = 0, backwards = 0;
    int counted = 0;  ///< Forward turns before the loss and before any backward turn.
    bool skipped = false;
  };

  void begin_pass(stage::PassKind pass, detail::EvaluationRecord* evaluation) noexcept;
  [[nodiscard]] std::string const& name(UnitId unit) const noexcept { return model_->units[unit].name; }
  [[nodiscard]] int uses(UnitId unit) const noexcept;
  [[nodiscard]] std::string why_uses(UnitId unit) const;
  void check_unit(Unit unit, std::string_view call) const;
  void check_phase(Phase phase, UnitId unit) const;
  void check_whole_evaluation(char const* call) const;
  [[nodiscard]] std::string done() const;  ///< "2 of 4 micro-steps", for messages.
  void check_param_of(std::uint64_t guard, ModelId model, ParamId param, char const* call) const;

  model::Description const* model_;
  stage::Order const* order_;
  StepSize step_;
  std::int64_t replay_every_;
  std::exception_ptr failure_;
  bool restoring_ = false;
  bool has_averages_ = false;  // parameters are exchanged with their averages
  std::int64_t steps_ = 0;
  int micro_steps_ = 0;
  std::int64_t actions_ = 0;
  std::optional<stage::Action> action_;
  stage::Sweep sweep_;     ///< The turns of the open action.
  bool written_ = false;   ///< The open action or pass has written its message.
  bool ran_once_ = false;  ///< The first run of two is over in this step.
  shard::Run run_ = shard::Run::once;
  std::uint64_t evaluations_ = 0;  ///< Id of the last evaluation.
  bool evaluation_messages_ = false;
  std::optional<stage::PassKind> pass_;
  detail::EvaluationRecord* evaluation_ = nullptr;
  std::uint64_t guards_ = 0;
  std::vector<OpenGuard> open_;  ///< In order of opening.
  ById<UnitId, UnitProgress> progress_;
  std::int64_t position_ = -1;  ///< Position of the last turn in declared order.
  int skips_left_ = 0;          ///< Remaining uses of the skipped unit at the next position.
  bool went_back_ = false;      ///< A unit has had a backward turn.
  bool loss_reported_ = false;
  bool pass_skipped_ = false;
};

}  // namespace zeroth::engine
