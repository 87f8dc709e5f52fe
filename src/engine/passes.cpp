/// EngineState: micro-steps and evaluation passes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/engine_state.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::detail {

using engine::Verb;
using stage::PassKind;

void EngineState::begin_pass(EvaluationRecord* evaluation) {
  check_between_passes(evaluation == nullptr ? "a micro-step begins" : "an evaluation pass begins");
  auto const accumulation = static_cast<int>(settings().batch.accumulation);
  if (evaluation == nullptr) {
    ZEROTH_EXPECTS(micro_steps_ < accumulation,
                   fmt::format("a micro-step begins after {} of {} of step {}: step() comes now", micro_steps_,
                               accumulation, steps_ + 1));
    bool const last = micro_steps_ + 1 == accumulation;
    bool const reduces = last || settings().reduce_gradients == ReduceGradients::every_micro_step;
    schedule_->begin_pass(PassKind::training, accumulation - micro_steps_, reduces, last);
    history().add(Verb::begin_micro_step);
  } else {
    ZEROTH_EXPECTS(evaluation->id == evaluations_,
                   fmt::format("an evaluation pass begins after {} of {}: a later evaluation() has ended this one",
                               evaluation->done, evaluation->passes));
    ZEROTH_EXPECTS(evaluation->done < evaluation->passes,
                   "an evaluation pass begins, but evaluation() announced no more");
    schedule_->begin_pass(PassKind::evaluation, evaluation->passes - evaluation->done, false, false);
    history().add(Verb::begin_evaluation);
  }
  pass_ = evaluation == nullptr ? PassKind::training : PassKind::evaluation;
  evaluation_ = evaluation;
  finished_ = false;
  position_ = -1;
  loss_reported_ = pass_skipped_ = false;
  std::ranges::fill(progress_, UnitProgress{});
}

void EngineState::end_pass(bool by_exception) noexcept {
  if (!pass_) {
    return;
  }
  try {
    check_thread("the end of a pass");
    ZEROTH_EXPECTS(!by_exception,
                   fmt::format("{} when it ended by an exception: nothing more of it was sent", state()));
    ZEROTH_EXPECTS(!guard_, fmt::format("a pass ended while {}: guards end before their pass", state()));
    if (!failure_) {
      *pass_ == PassKind::training ? end_training_pass() : end_evaluation_pass();
    }
  } catch (...) {
    remember_failure(std::current_exception());
  }
  pass_.reset();
  evaluation_ = nullptr;
}

void EngineState::end_training_pass() {
  settle_skips(2 * static_cast<std::int64_t>(model_->units.size()));
  for (std::uint32_t unit = 0; unit < progress_.size(); ++unit) {
    auto const uses = model_->units[unit].uses_per_micro_step;
    ZEROTH_EXPECTS(
        progress_[unit].backwards == uses,
        fmt::format("micro-step {} of step {} ended after {} of {} backward turns of unit \"{}\"; skip(unit) "
                    "takes the place of a unit that is not used",
                    micro_steps_ + 1, steps_ + 1, progress_[unit].backwards, uses, unit_name(unit)));
  }
  ZEROTH_EXPECTS(loss_reported_, fmt::format("micro-step {} of step {} ended without report_loss() or skip()",
                                             micro_steps_ + 1, steps_ + 1));
  schedule_->end_pass();
  ++micro_steps_;
}

void EngineState::end_evaluation_pass() {
  auto& evaluation = *evaluation_;
  if (!loss_reported_ && std::ranges::all_of(progress_, [](auto const& unit) { return unit.forwards == 0; })) {
    return;  // left by break before it began
  }
  ZEROTH_EXPECTS(loss_reported_, fmt::format("evaluation pass {} of {} ended without report_loss()",
                                             evaluation.done + 1, evaluation.passes));
  if (++evaluation.done == evaluation.passes) {
    optim::StepSums mine;
    mine.loss = evaluation.loss;
    mine.weight = evaluation.weight;
    mine.history = history().hash();
    auto const total = manager_->sum_evaluation(mine);
    check_histories(total, history(), steps_ + 1);
    history().settle();
    evaluation.mean = static_cast<float>(total.loss / total.weight);
  }
}

EvaluationRecord EngineState::begin_evaluation(int passes) {
  check_between_passes("evaluation()");
  ZEROTH_EXPECTS(passes >= 1, fmt::format("evaluation({}): at least one pass", passes));
  return {this, ++evaluations_, passes};
}

float EngineState::evaluation_loss(EvaluationRecord const& evaluation) {
  check_usable("mean_loss()");
  throw ContractError{fmt::format("mean_loss() after {} of {} evaluation passes", evaluation.done, evaluation.passes)};
}

float EngineState::report_loss(float mean, LossOptions const& options) {
  float const seed = begin_report(options);
  if (options.weight > 0) {
    (evaluation_ == nullptr ? sums_.loss : evaluation_->loss) +=
        static_cast<double>(options.weight) * static_cast<double>(mean);
    (evaluation_ == nullptr ? sums_.weight : evaluation_->weight) += static_cast<double>(options.weight);
  }
  return seed;
}

float EngineState::report_loss(DeviceLoss mean, LossOptions const& options) {
  ZEROTH_EXPECTS(mean.mean != nullptr, "report_loss(): the address of the mean is null");
  float const seed = begin_report(options);
  if (options.weight > 0) {
    losses_.push_back({mean.mean, static_cast<double>(options.weight)});
    sums_.weight += static_cast<double>(options.weight);
  }
  return seed;
}

float EngineState::begin_report(LossOptions const& options) {
  check_usable("report_loss()");
  ZEROTH_EXPECTS(pass_, "report_loss() outside of a pass");
  ZEROTH_EXPECTS(!pass_skipped_, "report_loss() in a micro-step that was skipped");
  ZEROTH_EXPECTS(!loss_reported_, fmt::format("report_loss() for the second time: {}", state()));
  ZEROTH_EXPECTS(std::isfinite(options.weight) && options.weight >= 0,
                 fmt::format("report_loss(): weight is {}, must be 0 or more and finite", options.weight));
  loss_reported_ = true;
  return *pass_ == PassKind::training ? manager_->loss_scale() * options.weight * gradient_prescale_ : 0.0F;
}

void EngineState::skip_unit(Unit unit) {
  check_usable("skip(unit)");
  check_unit(unit, "skip(unit)");
  auto& progress = progress_[unit.index()];
  ZEROTH_EXPECTS(!guard_ || guard_->turn.unit != unit.index(),
                 fmt::format("skip of unit \"{}\" while {}", unit_name(unit.index()), state()));
  ZEROTH_EXPECTS(progress.backwards == 0 && !progress.skipped,
                 fmt::format("skip of unit \"{}\", which {} in this micro-step", unit_name(unit.index()),
                             progress.skipped ? "was skipped already" : "has run backward"));
  ZEROTH_EXPECTS(progress.forwards > 0 || position_ < std::int64_t{unit.index()},
                 fmt::format("skip of unit \"{}\" after a later unit's turn: the other ranks expect this rank in its "
                             "forward turn before that",
                             unit_name(unit.index())));
  progress.skipped = true;
}

void EngineState::skip_pass() {
  check_usable("skip()");
  ZEROTH_EXPECTS(position_ < 0 && !loss_reported_ && !guard_,
                 fmt::format("skip() of a micro-step that has begun its work: {}", state()));
  loss_reported_ = true;
  for (auto& progress : progress_) {
    progress.skipped = true;
  }
  try {
    settle_skips(2 * static_cast<std::int64_t>(model_->units.size()));
  } catch (...) {
    remember_failure(std::current_exception());
    throw;
  }
  pass_skipped_ = true;
}

std::int64_t EngineState::first_sample() const noexcept {
  auto const& batch = settings().batch;
  auto const world = std::int64_t{gather_comm_->world()};
  auto const micro_step =
      pass_ == PassKind::evaluation ? std::int64_t{evaluation_->done} : steps_ * batch.accumulation + micro_steps_;
  return (micro_step * world + gather_comm_->rank()) * batch.micro;
}

}  // namespace zeroth::detail
