// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "stage/schedule.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {

using stage::PassKind;
using stage::Phase;
using stage::Turn;

Protocol::Protocol(model::Description const& model, stage::Order const& order, StepSize step, std::int64_t replay_every)
    : model_{&model}, order_{&order}, step_{step}, replay_every_{replay_every}, progress_(model.units.size()) {
  open_.reserve(most_open_guards);
}

// ---- the engine -----------------------------------------------------------------------------------------------------

void Protocol::fail(std::exception_ptr error) noexcept {
  if (!failure_) {
    failure_ = std::move(error);
  }
}

void Protocol::check_usable(char const* call) const {
  if (failure_) {
    try {
      std::rethrow_exception(failure_);
    } catch (PeerError const&) {
      throw;
    } catch (std::exception const& error) {
      throw ContractError{fmt::format("{}: the engine failed before: {}", call, error.what())};
    }
  }
  ZEROTH_EXPECTS(!restoring_,
                 fmt::format("{}: a failed restore() left states partly changed; call restore() again", call));
}

void Protocol::check_between_steps(char const* call) const {
  check_between_passes(call);
  ZEROTH_EXPECTS(micro_steps_ == 0, fmt::format("{} after {} of {} micro-steps of step {}: it belongs between steps",
                                                call, micro_steps_, step_.micro_steps, steps_ + 1));
  ZEROTH_EXPECTS(actions_ == 0, fmt::format("{} after {} of {} actions of step {}: it belongs between steps", call,
                                            actions_, step_.actions, steps_ + 1));
}

void Protocol::check_not_swapped(char const* call) const {
  ZEROTH_EXPECTS(
      !has_averages_,
      fmt::format("{} while parameters are exchanged with their averages: call swap_ema() again first", call));
}

void Protocol::check_between_passes(char const* call) const {
  check_usable(call);
  ZEROTH_EXPECTS(!pass_, fmt::format("{} while {}: it belongs between passes", call, state()));
}

void Protocol::check_reduced(char const* call) const {
  check_between_passes(call);
  ZEROTH_EXPECTS(micro_steps_ == step_.micro_steps,
                 fmt::format("{} after {} of {} micro-steps of step {}: it belongs between the last of them and step()",
                             call, micro_steps_, step_.micro_steps, steps_ + 1));
}

std::string Protocol::done() const {
  return actions_ > 0 && micro_steps_ == 0 ? fmt::format("{} of {} actions", actions_, step_.actions)
                                           : fmt::format("{} of {} micro-steps", micro_steps_, step_.micro_steps);
}

std::string Protocol::state() const {
  if (!open_.empty()) {
    auto const& turn = open_.back().turn;
    return fmt::format("the {} guard of unit \"{}\" is open", stage::purpose_of(turn), name(turn.unit));
  }
  if (action_) {
    return fmt::format("{} of micro-step {} of {} is open", stage::name_of(action_->phase), action_->micro_step + 1,
                       step_.micro_steps);
  }
  if (pass_) {
    return *pass_ == PassKind::training
               ? fmt::format("micro-step {} of {} is open", micro_steps_ + 1, step_.micro_steps)
               : fmt::format("evaluation pass {} of {} is open", evaluation_->done + 1, evaluation_->passes);
  }
  return fmt::format("{} of step {} are done", done(), steps_ + 1);
}

// ---- steps ----------------------------------------------------------------------------------------------------------

void Protocol::check_step(std::optional<float> learning_rate) const {
  check_between_passes("step()");
  ZEROTH_EXPECTS(micro_steps_ == step_.micro_steps, fmt::format("step() after {} of step {}", done(), steps_ + 1));
  ZEROTH_EXPECTS(!learning_rate || (std::isfinite(*learning_rate) && *learning_rate >= 0),
                 fmt::format("step(): learning_rate is {}, must be 0 or more and finite", *learning_rate));
}

void Protocol::end_step() noexcept {
  ++steps_;
  micro_steps_ = 0;
  actions_ = 0;
}

void Protocol::check_restore() const {
  if (!restoring_ || failure_) {
    check_between_steps("restore()");
  }
}

void Protocol::end_restore(std::int64_t step) noexcept {
  restoring_ = false;
  steps_ = step;
}

// ---- passes ---------------------------------------------------------------------------------------------------------

void Protocol::begin_micro_step() {
  check_between_passes("a micro-step begins");
  check_not_swapped("a micro-step begins");
  ZEROTH_EXPECTS(micro_steps_ < step_.micro_steps,
                 fmt::format("a micro-step begins after {} of {} of step {}: call step() first", micro_steps_,
                             step_.micro_steps, steps_ + 1));
  ZEROTH_EXPECTS(actions_ == 0, fmt::format("a micro-step begins after {} of {} actions of step {}: a step consists of "
                                            "micro-steps or of schedule()'s actions, not of both",
                                            actions_, step_.actions, steps_ + 1));
  run_ = replay_is_due()                  ? shard::Run::first_of_two
         : micro_steps_ == 0 && ran_once_ ? shard::Run::second_of_two
                                          : shard::Run::once;
  begin_pass(PassKind::training, nullptr);
}

void Protocol::check_begin_action() const {
  check_between_passes("an action begins");
  check_not_swapped("an action begins");
  check_whole_evaluation("an action begins");
  ZEROTH_EXPECTS(replay_every_ == 0, fmt::format("an action of schedule() begins, but zeroth.replay_every is {}: only "
                                                 "micro_steps() can run a micro-step twice; allowed here: 0",
                                                 replay_every_));
  ZEROTH_EXPECTS(actions_ > 0 || micro_steps_ == 0,
                 fmt::format("an action begins after {} of {} micro-steps of step {}: a step consists of micro-steps "
                             "or of schedule()'s actions, not of both",
                             micro_steps_, step_.micro_steps, steps_ + 1));
  ZEROTH_EXPECTS(actions_ < step_.actions,
                 fmt::format("an action begins after all {} of step {}: call step() first", actions_, steps_ + 1));
}

void Protocol::begin_action(stage::Action const& action, stage::Sweep const& sweep) {
  run_ = shard::Run::once;
  bool const forward = action.phase == Phase::forward;
  begin_pass(PassKind::training, nullptr);
  action_ = action;
  sweep_ = sweep;
  loss_reported_ = !forward;  // an action without forward receives its seed with the gradient
}

void Protocol::check_action_loss(bool is_last) const {
  ZEROTH_EXPECTS((evaluation_ != nullptr || (action_ && action_->phase == Phase::forward)) && is_last,
                 fmt::format("report_loss() while {}: only forward of the last chunk reports a loss", state()));
}

void Protocol::check_no_message(char const* call) const {
  ZEROTH_EXPECTS(actions_ == 0 || actions_ == step_.actions,
                 fmt::format("{} after {} actions of step {}, whose messages between pipeline stages are under way: it "
                             "belongs between steps",
                             call, actions_, steps_ + 1));
}

void Protocol::check_whole_evaluation(char const* call) const {
  ZEROTH_EXPECTS(!evaluation_messages_,
                 fmt::format("{} after an evaluation stopped between the chunks of a pass: with several chunks per "
                             "stage, stop where each chunk has had the same number of passes",
                             call));
}

void Protocol::check_message(char const* call, bool there, char const* why, std::initializer_list<Phase> phases) const {
  check_usable(call);
  ZEROTH_EXPECTS(action_ || evaluation_ != nullptr, fmt::format("{} outside of an action", call));
  ZEROTH_EXPECTS(there, fmt::format("{}: {}", call, why));
  ZEROTH_EXPECTS(std::ranges::find(phases, action_ ? action_->phase : Phase::forward) != phases.end(),
                 fmt::format("{} while {}: it belongs to {} actions", call, state(), stage::name_of(*phases.begin())));
}

void Protocol::end_action(bool reports, bool writes) {
  bool const forward = action_->phase == Phase::forward;
  auto const what = [&] {
    return fmt::format("{} of micro-step {} of step {}", stage::name_of(action_->phase), action_->micro_step + 1,
                       steps_ + 1);
  };
  for (auto index = sweep_.begin; index < sweep_.end; ++index) {
    auto const unit = static_cast<UnitId>(index);
    auto const done = forward ? std::min(progress_[unit].forwards, uses(unit)) : progress_[unit].backwards;
    ZEROTH_EXPECTS(done == uses(unit),
                   fmt::format("{} ended after {} of {} turns of unit \"{}\"", what(), done, uses(unit), name(unit)));
  }
  ZEROTH_EXPECTS(!forward || !reports || loss_reported_,
                 fmt::format("{} ended without report_loss() in the last stage", what()));
  ZEROTH_EXPECTS(!writes || written_, fmt::format("{} ended without writing {}, which is sent now", what(),
                                                  forward ? "output()" : "input_gradient()"));
  ++actions_;
  micro_steps_ = actions_ == step_.actions ? step_.micro_steps : 0;
}

std::uint64_t Protocol::begin_evaluation(int passes) {
  check_between_passes("evaluation()");
  check_whole_evaluation("evaluation()");
  ZEROTH_EXPECTS(passes >= 1, fmt::format("evaluation({}): allowed: 1 pass or more", passes));
  return ++evaluations_;
}

void Protocol::begin_evaluation_pass(detail::EvaluationRecord& evaluation) {
  check_between_passes("an evaluation pass begins");
  ZEROTH_EXPECTS(evaluation.id == evaluations_,
                 fmt::format("an evaluation pass begins after {} of {}: a newer evaluation() has replaced this one",
                             evaluation.done, evaluation.passes));
  ZEROTH_EXPECTS(evaluation.done < evaluation.passes,
                 "an evaluation pass begins, but evaluation() was given fewer passes");
  begin_pass(PassKind::evaluation, &evaluation);
}

void Protocol::begin_pass(PassKind pass, detail::EvaluationRecord* evaluation) noexcept {
  pass_ = pass;
  evaluation_ = evaluation;
  position_ = -1;
  skips_left_ = 0;
  went_back_ = loss_reported_ = pass_skipped_ = written_ = false;
  std::ranges::fill(progress_, UnitProgress{});
}

void Protocol::check_loss(LossOptions const& options) const {
  check_usable("report_loss()");
  ZEROTH_EXPECTS(pass_, "report_loss() outside of a pass");
  ZEROTH_EXPECTS(!pass_skipped_, "report_loss() in a micro-step that was skipped");
  ZEROTH_EXPECTS(!loss_reported_, fmt::format("report_loss() for the second time: {}", state()));
  ZEROTH_EXPECTS(std::isfinite(options.weight) && options.weight >= 0,
                 fmt::format("report_loss(): weight is {}, must be 0 or more and finite", options.weight));
}

void Protocol::check_metric(std::string_view name, double weight) const {
  check_usable("report_metric()");
  ZEROTH_EXPECTS(pass_, fmt::format("report_metric() of \"{}\" outside of a pass", name));
  ZEROTH_EXPECTS(!pass_skipped_, fmt::format("report_metric() of \"{}\" in a micro-step that was skipped", name));
  ZEROTH_EXPECTS(std::isfinite(weight) && weight >= 0,
                 fmt::format("report_metric() of \"{}\": weight is {}, must be 0 or more and finite", name, weight));
}

void Protocol::check_end_of_pass(bool by_exception) const {
  ZEROTH_EXPECTS(!by_exception, fmt::format("{} and was ended by an exception: nothing more of it was sent", state()));
  ZEROTH_EXPECTS(open_.empty(), fmt::format("a pass ended while {}: guards must end before their pass", state()));
}

void Protocol::end_micro_step() {
  for (auto const unit : progress_.ids()) {
    ZEROTH_EXPECTS(progress_[unit].backwards == uses(unit),
                   fmt::format("micro-step {} of step {} ended after {} of {} backward turns of unit \"{}\"; call "
                               "skip(unit) for a unit that is not used",
                               micro_steps_ + 1, steps_ + 1, progress_[unit].backwards, uses(unit), name(unit)));
  }
  ZEROTH_EXPECTS(loss_reported_, fmt::format("micro-step {} of step {} ended without report_loss() or skip()",
                                             micro_steps_ + 1, steps_ + 1));
  ran_once_ = run_ == shard::Run::first_of_two;
  micro_steps_ += ran_once_ ? 0 : 1;
}

bool Protocol::end_evaluation_pass(bool reports, bool writes) {
  bool const did_nothing = std::ranges::all_of(progress_, [](auto const& unit) { return unit.forwards == 0; });
  if (did_nothing && !loss_reported_ && !written_) {
    return false;
  }
  ZEROTH_EXPECTS(!reports || loss_reported_, fmt::format("evaluation pass {} of {} ended without report_loss()",
                                                         evaluation_->done + 1, evaluation_->passes));
  ZEROTH_EXPECTS(!writes || written_,
                 fmt::format("evaluation pass {} of {} ended without writing output(), which is sent now",
                             evaluation_->done + 1, evaluation_->passes));
  ++evaluation_->done;
  return true;
}

void Protocol::leave_pass() noexcept {
  pass_.reset();
  action_.reset();
  evaluation_ = nullptr;
}

// ---- guards ---------------------------------------------------------------------------------------------------------

int Protocol::uses(UnitId unit) const noexcept {
  auto const declared = model_->units[unit].uses_per_micro_step;
  return declared > 0 ? declared : std::max(1, progress_[unit].counted);
}

std::string Protocol::why_uses(UnitId unit) const {
  return model_->units[unit].uses_per_micro_step > 0
             ? fmt::format("its uses_per_micro_step is {}", uses(unit))
             : fmt::format("it declares no uses_per_micro_step, and its forward turns before the loss were {}",
                           progress_[unit].counted);
}

void Protocol::check_unit(Unit unit, std::string_view call) const {
  ZEROTH_EXPECTS(unit.model() == model_->id, fmt::format("{}: the unit belongs to another model", call));
  ZEROTH_EXPECTS(index_of(unit.id()) < model_->units.size(),
                 fmt::format("{}: the unit was added to the model after this engine was built", call));
}

void Protocol::check_open(Phase phase, Unit unit) const {
  auto const* const call = stage::name_of(phase).data();
  check_usable(call);
  check_unit(unit, call);
  auto const id = unit.id();
  ZEROTH_EXPECTS(pass_, fmt::format("{} of unit \"{}\" outside of a pass", call, name(id)));
  for (auto const& guard : open_) {
    ZEROTH_EXPECTS(guard.turn.unit != id || guard.turn.phase != phase,
                   fmt::format("{} of unit \"{}\" while the {} guard of this unit is open", call, name(id),
                               stage::purpose_of(guard.turn)));
  }
  ZEROTH_EXPECTS(open_.size() < most_open_guards,
                 fmt::format("{} of unit \"{}\" while {} guards are open, which is the limit; the last: {}", call,
                             name(id), open_.size(), state()));
  check_phase(phase, id);
  auto const& progress = progress_[id];
  ZEROTH_EXPECTS(!progress.skipped && !pass_skipped_,
                 fmt::format("{} of unit \"{}\", which this micro-step skips", call, name(id)));
  ZEROTH_EXPECTS(phase == Phase::forward || progress.backwards < uses(id),
                 fmt::format("backward of unit \"{}\", call {} in a micro-step: {}", name(id), progress.backwards + 1,
                             why_uses(id)));
}

Turn Protocol::begin_turn(Phase phase, UnitId unit) noexcept {
  auto& progress = progress_[unit];
  if (phase == Phase::forward) {
    ++progress.forwards;
    progress.counted += went_back_ || loss_reported_ ? 0 : 1;  // later forward turns are recomputation
    return {*pass_, phase, unit};
  }
  went_back_ = true;
  ++progress.backwards;
  return {*pass_, phase, unit, progress.backwards == uses(unit)};
}

std::uint64_t Protocol::opened(Turn const& turn) {
  open_.push_back({++guards_, turn});
  return guards_;
}

/// Actions that read parameters run forward again. Every other phase has its own actions.
void Protocol::check_phase(Phase phase, UnitId unit) const {
  if (!action_) {
    return;
  }
  auto const of = action_->phase;
  ZEROTH_EXPECTS(index_of(unit) >= sweep_.begin && index_of(unit) < sweep_.end,
                 fmt::format("{} of unit \"{}\", which is not in chunk {}, the chunk of this action: see Work::units()",
                             stage::name_of(phase), name(unit), action_->chunk));
  bool const again = phase == Phase::forward && stage::reads_parameters(of);
  bool const divided = phase == Phase::backward && of != Phase::forward;
  ZEROTH_EXPECTS(
      phase == of || again,
      fmt::format("{} of unit \"{}\" in an action that is {}{}", stage::name_of(phase), name(unit), stage::name_of(of),
                  divided ? ": zeroth.pipeline.schedule divides backward, and a program has Work::inputs() "
                            "and Work::weights() for that"
                          : ""));
}

std::optional<Turn> Protocol::closed(std::uint64_t guard) noexcept {
  auto const found = std::ranges::find(open_, guard, &OpenGuard::id);
  if (found == open_.end()) {
    return std::nullopt;
  }
  auto const turn = found->turn;
  open_.erase(found);
  return turn;
}

void Protocol::check_param(ModelId model, ParamId param, char const* call) const {
  ZEROTH_EXPECTS(model == model_->id, fmt::format("{}: the parameter belongs to another model", call));
  ZEROTH_EXPECTS(index_of(param) < model_->params.size(),
                 fmt::format("{}: the parameter was added to the model after this engine was built", call));
}

void Protocol::check_param_of(std::uint64_t guard, ModelId model, ParamId param, char const* call) const {
  check_param(model, param, call);
  auto const unit = std::ranges::find(open_, guard, &OpenGuard::id)->turn.unit;
  auto const& described = model_->params[param];
  bool const tied = std::ranges::find(described.ties, unit) != described.ties.end();
  ZEROTH_EXPECTS(described.owner == unit || tied,
                 fmt::format("{}: unit \"{}\" neither holds nor ties parameter \"{}\", which belongs to unit \"{}\"",
                             call, name(unit), described.name, name(described.owner)));
}

void Protocol::check_parameter(std::uint64_t guard, ModelId model, ParamId param) const {
  ZEROTH_EXPECTS(std::ranges::find(open_, guard, &OpenGuard::id) != open_.end(),
                 "a parameter was requested from a guard that has ended");
  check_param_of(guard, model, param, "operator[]");
}

UnitId Protocol::check_gradient(std::uint64_t guard, ModelId model, ParamId param) const {
  auto const open = std::ranges::find(open_, guard, &OpenGuard::id);
  ZEROTH_EXPECTS(open != open_.end(), "a gradient was requested from a guard that has ended");
  check_param_of(guard, model, param, "grad");
  auto const& described = model_->params[param];
  ZEROTH_EXPECTS(described.options.trainable, fmt::format("grad of \"{}\", which is frozen", described.name));
  ZEROTH_EXPECTS(loss_reported_,
                 fmt::format("grad of \"{}\" before report_loss(): gradients must carry the seed that it returns",
                             described.name));
  return open->turn.unit;
}

// ---- skips ----------------------------------------------------------------------------------------------------------

bool Protocol::skip(Unit unit) {
  check_usable("skip(unit)");
  check_unit(unit, "skip(unit)");
  auto const id = unit.id();
  auto& progress = progress_[id];
  auto const open = std::ranges::find(open_, id, [](OpenGuard const& guard) { return guard.turn.unit; });
  ZEROTH_EXPECTS(open == open_.end(), fmt::format("skip of unit \"{}\" while the {} guard of unit \"{}\" is open",
                                                  name(id), stage::purpose_of(open->turn), name(id)));
  ZEROTH_EXPECTS(progress.backwards == 0 && !progress.skipped,
                 fmt::format("skip of unit \"{}\", which {} in this micro-step", name(id),
                             progress.skipped ? "was skipped already" : "has run backward"));
  ZEROTH_EXPECTS(progress.forwards > 0 || position_ < order_->position({PassKind::training, Phase::forward, id}),
                 fmt::format("skip of unit \"{}\" after a later unit's turn: call it before any later unit's turn, "
                             "because the other ranks wait for this one",
                             name(id)));
  progress.skipped = true;
  bool const late = position_ >= order_->position({PassKind::training, Phase::backward, id});
  if (late) {
    progress.backwards = uses(id);
  }
  return late;
}

void Protocol::skip_pass() {
  check_usable("skip()");
  ZEROTH_EXPECTS(position_ < 0 && !loss_reported_ && open_.empty(),
                 fmt::format("skip() of a micro-step that has already started work: {}", state()));
  loss_reported_ = pass_skipped_ = true;
  for (auto& progress : progress_) {
    progress.skipped = true;
  }
}

std::optional<Turn> Protocol::next_skipped(std::int64_t position) noexcept {
  for (; position_ + 1 < position; ++position_) {
    auto const turn = order_->turn_at(PassKind::training, position_ + 1);
    auto const& progress = progress_[turn.unit];
    if (skips_left_ == 0 && progress.skipped &&
        (turn.phase == Phase::forward ? progress.forwards : progress.backwards) == 0) {
      skips_left_ = uses(turn.unit);
    }
    if (skips_left_ > 0) {
      position_ += --skips_left_ == 0 ? 1 : 0;
      return begin_turn(turn.phase, turn.unit);
    }
  }
  return std::nullopt;
}

}  // namespace zeroth::engine
