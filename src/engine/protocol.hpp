// SPDX-License-Identifier: Apache-2.0
/// Which call is legal now. Pure: knows the model and the declared order, no memory and no other rank.
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

/// What a step is made of.
struct StepSize {
  int micro_steps = 1;
  std::int64_t actions = 2;  ///< Of schedule().
};

/// What has happened in a step so far, and what may come next. What is not legal throws ContractError, which names the
/// unit and both states, and changes nothing.
class Protocol {
 public:
  /// Guards of one engine that may be open at the same time.
  static constexpr std::size_t most_open_guards = 16;

  /// Model and order outlive it. In every step whose number `replay_every` divides the first micro-step runs twice; 0:
  /// in none.
  Protocol(model::Description const& model, stage::Order const& order, StepSize step, std::int64_t replay_every = 0);

  // ---- the engine ----
  /// Nothing is legal any more: the first error is what every later call tells.
  void fail(std::exception_ptr error) noexcept;
  [[nodiscard]] std::exception_ptr const& failure() const noexcept { return failure_; }
  void check_usable(char const* call) const;
  void check_between_passes(char const* call) const;
  /// Between a step() and the first micro-step of the next.
  void check_between_steps(char const* call) const;
  /// Between the last micro-step of a step and step().
  void check_reduced(char const* call) const;
  [[nodiscard]] std::string state() const;  ///< What the engine is doing, for messages.

  // ---- steps ----
  void check_step(std::optional<float> learning_rate) const;
  void end_step() noexcept;
  /// States were to be restored: until they are, only that is legal.
  void begin_restore() noexcept { restoring_ = true; }
  /// They are those of `step`.
  void end_restore(std::int64_t step) noexcept;
  /// As check_between_steps(); also after a restore() that failed in the middle.
  void check_restore() const;
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }     ///< Completed.
  [[nodiscard]] int micro_steps() const noexcept { return micro_steps_; }  ///< Completed, of this step.
  /// The next micro-step will be the first run of two.
  [[nodiscard]] bool replay_is_due() const noexcept {
    return replay_every_ > 0 && micro_steps_ == 0 && !ran_once_ && (steps_ + 1) % replay_every_ == 0;
  }
  /// Which run the micro-step is that has begun.
  [[nodiscard]] shard::Run run() const noexcept { return run_; }

  // ---- passes ----
  void begin_micro_step();
  /// The next one of the step's schedule, which is `action`, with the turns of `sweep`.
  void begin_action(stage::Action const& action, stage::Sweep const& sweep);
  /// Before that: there is one.
  void check_begin_action() const;
  /// The one that is open, of a pipeline's schedule; null: none is.
  [[nodiscard]] stage::Action const* action() const noexcept { return action_ ? &*action_ : nullptr; }
  [[nodiscard]] std::int64_t actions() const noexcept { return actions_; }  ///< That have ended, of this step.
  /// Memory for what is sent was asked for.
  void note_written() noexcept { written_ = true; }
  void end_action(bool reports, bool writes);
  void check_action_loss(bool is_last) const;
  /// No message of a pipeline's step is under way: none of its actions has begun, or all have ended.
  void check_no_message(char const* call) const;
  /// `there`: this chunk has that message, and otherwise `why` it has none. It is of actions of `phases`.
  void check_message(char const* call, bool there, char const* why, std::initializer_list<Phase> phases) const;
  [[nodiscard]] std::uint64_t begin_evaluation(int passes);  ///< Its id.
  void begin_evaluation_pass(detail::EvaluationRecord& evaluation);
  [[nodiscard]] std::optional<stage::PassKind> pass() const noexcept { return pass_; }
  [[nodiscard]] detail::EvaluationRecord* evaluation() const noexcept { return evaluation_; }  ///< Null in training.
  void check_loss(LossOptions const& options) const;
  void check_metric(std::string_view name, double weight) const;
  void loss_reported() noexcept { loss_reported_ = true; }
  void check_end_of_pass(bool by_exception) const;
  /// Every unit that is skipped has had its turns.
  void end_micro_step();
  /// False for one that was left before it began: it does not count. Otherwise it has to have a loss, and an output.
  /// Chunks have yet to take messages of this evaluation, whose next pass must follow; or not.
  void note_messages(bool under_way) noexcept { evaluation_messages_ = under_way; }
  [[nodiscard]] bool end_evaluation_pass(bool reports, bool writes);
  void leave_pass() noexcept;  ///< However it ended.

  // ---- guards ----
  void check_open(Phase phase, Unit unit) const;
  /// The turn that begins.
  [[nodiscard]] stage::Turn begin_turn(Phase phase, UnitId unit) noexcept;
  [[nodiscard]] std::uint64_t opened(stage::Turn const& turn);  ///< The guard's id.
  /// The turn that this ends; none if it was ended before.
  [[nodiscard]] std::optional<stage::Turn> closed(std::uint64_t guard) noexcept;
  void check_parameter(std::uint64_t guard, ModelId model, ParamId param) const;
  /// The guard's unit.
  [[nodiscard]] UnitId check_gradient(std::uint64_t guard, ModelId model, ParamId param) const;
  /// `param`, with model `model`, is one of this engine's.
  void check_param(ModelId model, ParamId param, char const* call) const;

  // ---- skips ----
  /// True if the place of the unit's backward turn has passed: it takes that now, without parameters.
  [[nodiscard]] bool skip(Unit unit);
  void skip_pass();
  /// The next turn of a skipped unit that comes before `position` in declared order.
  [[nodiscard]] std::optional<stage::Turn> next_skipped(std::int64_t position) noexcept;
  /// The caller has settled all skipped turns before `position`, whose turn comes next.
  void arrive(std::int64_t position) noexcept { position_ = std::max(position_, position); }

 private:
  struct OpenGuard {
    std::uint64_t id;
    stage::Turn turn;
  };
  /// What a pass has seen of a unit.
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
  std::int64_t steps_ = 0;
  int micro_steps_ = 0;
  std::int64_t actions_ = 0;
  std::optional<stage::Action> action_;
  stage::Sweep sweep_;     ///< What that does.
  bool written_ = false;   ///< What the action or pass that is open sends.
  bool ran_once_ = false;  ///< The first run of two is over in this step.
  shard::Run run_ = shard::Run::once;
  std::uint64_t evaluations_ = 0;  ///< The last one's id.
  bool evaluation_messages_ = false;
  std::optional<stage::PassKind> pass_;
  detail::EvaluationRecord* evaluation_ = nullptr;
  std::uint64_t guards_ = 0;
  std::vector<OpenGuard> open_;  ///< In the order in which they were opened.
  ById<UnitId, UnitProgress> progress_;
  std::int64_t position_ = -1;  ///< Of the last turn in declared order.
  int skips_left_ = 0;          ///< Uses of the skipped unit at the position behind it.
  bool went_back_ = false;      ///< A unit has had a backward turn.
  bool loss_reported_ = false;
  bool pass_skipped_ = false;
};

}  // namespace zeroth::engine
