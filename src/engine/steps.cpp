/// EngineState: the update and its report.
#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <cmath>

#include "core/logger.hpp"
#include "engine/engine_state.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::detail {

optim::StepRules EngineState::rules_for(StepOptions const& options) const {
  auto rules = settings().rules;
  rules.gradient_prescale = gradient_prescale_;
  if (options.learning_rate) {
    rules.has_learning_rate = true;
    rules.given_learning_rate = *options.learning_rate;
  }
  return rules;
}

std::optional<StepReport> EngineState::step(StepOptions const& options) {
  check_between_passes("step()");
  ZEROTH_EXPECTS(micro_steps_ == settings().batch.accumulation,
                 fmt::format("step() after {} of {} micro-steps of step {}", micro_steps_,
                             settings().batch.accumulation, steps_ + 1));
  if (options.learning_rate) {
    ZEROTH_EXPECTS(std::isfinite(*options.learning_rate) && *options.learning_rate >= 0,
                   fmt::format("step(): learning_rate is {}, must be 0 or more and finite", *options.learning_rate));
  }
  try {
    auto report = take_report();
    auto const slot = static_cast<std::size_t>(steps_ % 2);
    if (options.learning_rate) {  // ranks that give different ones are told so
      history().add(engine::Verb::learning_rate, std::bit_cast<std::uint32_t>(*options.learning_rate));
    }
    auto const rules = rules_for(options);
    sums_.stop = job_->stop_requested() ? 1 : 0;
    sums_.history = history().hash();
    manager_->decide(sums_, losses_, rules, slot);
    schedule_->update(rules.adam);
    ++steps_;
    if (settings().check && steps_ % engine::replica_check_steps == 0) {
      compare_replicas(shard::Moments::with, fmt::format("step {}", steps_));
    }

    auto const now = device_->now();
    StepReport owed;
    owed.step = steps_;
    owed.step_ms = std::chrono::duration<double, std::milli>(now - step_began_).count();
    auto const waited = device_->compute().waited_ms() + gather_stream_->host_ms() + reduce_stream_->host_ms();
    owed.exposed_comm_ms = waited - waited_ms_;
    auto const traffic = manager_->traffic();
    owed.gathered_bytes = traffic.gathered_bytes - traffic_.gathered_bytes;
    owed.reduced_bytes = traffic.reduced_bytes - traffic_.reduced_bytes;
    owed.prefetch_misses = schedule_->prefetch_misses() - misses_;
    owed.parameter_slots_used = manager_->parameter_slots_high_water();
    owed.gradient_slots_used = manager_->gradient_slots_high_water();
    owed_ = owed;

    step_began_ = now;
    waited_ms_ = waited;
    traffic_ = traffic;
    misses_ = schedule_->prefetch_misses();
    micro_steps_ = 0;
    sums_ = {};
    losses_.clear();
    history().clear();
    if (steps_ == 2 && !settings().check) {
      gather_comm_->set_options({.timeout = settings().timeout});
      reduce_comm_->set_options({.timeout = settings().timeout});
    }
    return report;
  } catch (...) {
    remember_failure(std::current_exception());
    throw;
  }
}

/// All ranks find the same in the same call. An engine that fails aborts what the others still have under way, and they
/// would blame it: so none fails before all are here.
void EngineState::end_together(std::string const& why) {
  try {
    meet("the end of training");
  } catch (PeerError const&) {  // one that is gone, or is ahead: what all know is still what ends this
  }
  throw Error{why};
}

/// `total` is a sum over ranks that `mine` was part of.
void EngineState::check_histories(optim::StepSums const& total, engine::History const& mine, std::int64_t step) {
  if (total.history != gather_comm_->world() * mine.hash()) {
    engine::compare_histories(mine, step, *model_, *gather_comm_, *device_, *gather_stream_);
  }
}

std::optional<StepReport> EngineState::take_report() {
  if (!owed_) {
    return std::nullopt;
  }
  auto report = *std::exchange(owed_, std::nullopt);
  auto const slot = static_cast<std::size_t>((report.step - 1) % 2);
  auto const& results = manager_->results();
  auto const& scalars = results.scalars[slot];
  check_histories(results.totals[slot], histories_[slot], report.step);
  if (scalars.loss_scale.exhausted) {
    end_together(
        fmt::format("step {}: a gradient was not finite, and the loss scale is at its smallest value, {} "
                    "(fp16.min_loss_scale): training cannot go on. Look for what overflows first; bf16 has fp32's "
                    "range and needs no loss scale",
                    report.step, scalars.loss_scale_used));
  }
  report.loss = scalars.loss;
  report.grad_norm = scalars.gradient_norm;
  report.learning_rate = scalars.learning_rate;
  report.loss_scale = scalars.loss_scale_used;
  report.nonfinite = scalars.nonfinite;
  report.skipped = scalars.skip;
  report.stop = scalars.stop;
  tell_nonfinite(report);
  return report;
}

/// Once: what has become NaN stays so, and every report says it again.
void EngineState::tell_nonfinite(StepReport const& report) {
  if (report.nonfinite && !report.skipped && !told_nonfinite_ && gather_comm_->rank() == 0) {
    told_nonfinite_ = true;
    logger().warn(
        "{}step {}: the gradient was not finite, its norm is {}, and all ranks updated: weights may be NaN from now "
        "on. "
        "With zeroth.skip_nonfinite such updates are skipped",
        rank_prefix(), report.step, report.grad_norm);
  }
}

std::optional<StepReport> EngineState::finish() {
  check_between_passes("finish()");
  try {
    auto report = take_report();
    gather_stream_->synchronize();
    reduce_stream_->synchronize();
    device_->compute().synchronize();
    finished_ = true;
    return report;
  } catch (...) {
    remember_failure(std::current_exception());
    throw;
  }
}

void EngineState::trace(Timeline* timeline) {
  check_between_passes("trace()");
  device_->set_timeline(timeline);
}

}  // namespace zeroth::detail
