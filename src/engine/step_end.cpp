// SPDX-License-Identifier: Apache-2.0
#include "engine/step_end.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "comm/launch/job_state.hpp"
#include "core/logger.hpp"
#include "engine/replicas.hpp"
#include "engine/server.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {

using detail::EngineState;

namespace {

/// All ranks detect the same error in the same call. A failing engine aborts the pending work of the others, which
/// would then blame it, so all ranks meet before any of them throws.
[[noreturn]] void end_together(EngineState& engine, std::string const& why) {
  try {
    engine.meet("the end of training");
  } catch (PeerError const&) {  // a rank that left or is ahead; all still throw the error that they have in common
  }
  throw Error{why};
}

/// Warns once: weights that became NaN stay NaN, and every later report would repeat the warning.
void tell_nonfinite(EngineState& engine, StepReport const& report) {
  if (report.nonfinite && !report.skipped && !engine.session.told_nonfinite && engine.runtime.speaks()) {
    engine.session.told_nonfinite = true;
    logger().warn(
        "{}step {}: the gradient is not finite (its norm is {}), and all ranks applied it: weights may now be NaN. Set "
        "zeroth.skip_nonfinite to skip such updates",
        rank_prefix(), report.step, report.grad_norm);
  }
}

std::vector<MonitorEvent> events_of_metrics(Session const& session,
                                            std::array<optim::MetricSums, optim::most_metrics> const& sums) {
  std::vector<MonitorEvent> events;
  for (std::size_t i = 0; i < session.metrics.size(); ++i) {
    events.push_back(
        {"Train/Metrics/" + session.metrics[i], sums[i].sum.value() / sums[i].weight.value(), session.samples});
  }
  return events;
}

/// This rank's contribution to StepSums::seconds: its time on rank 0, and on workers that may be stale, whose sums
/// include only themselves.
double seconds_of_rank_0(EngineState const& engine) {
  auto const& servers = engine.runtime.servers;
  bool const tells = engine.runtime.whole().rank() == 0 || (servers && servers->is_stale());
  return tells ? std::chrono::duration<double>(Clock::now() - engine.session.began).count() : 0;
}

}  // namespace

std::optional<StepReport> take_report(EngineState& engine) {
  auto const owed = engine.session.accumulator->take_owed();
  if (!owed) {
    return std::nullopt;
  }
  auto report = owed->report;
  auto const& results = engine.sharded.manager->optimizer.results();
  auto const& scalars = results.scalars[owed->parity];
  engine.check_call_logs(results.totals[owed->parity], *owed->call_log, report.step, engine.runtime.deciders());
  if (scalars.loss_scale.exhausted) {
    end_together(engine, fmt::format("step {}: a gradient is not finite, and the loss scale is already at its smallest "
                                     "value, {} (fp16.min_loss_scale): training cannot continue. Find what overflows "
                                     "first, or use bf16, which has fp32's range and needs no loss scale",
                                     report.step, scalars.loss_scale_used));
  }
  if (engine.session.checkpoints) {
    report.save_failed = engine.session.checkpoints->see(report.step, results.totals[owed->parity]);
  }
  report.loss = scalars.loss;
  report.grad_norm = scalars.gradient_norm;
  report.learning_rate = scalars.learning_rate;
  report.loss_scale = scalars.loss_scale_used;
  report.nonfinite = scalars.nonfinite;
  report.skipped = scalars.skip;
  report.stop = scalars.stop;
  report.elapsed_s = results.totals[owed->parity].seconds;
  add_staleness(engine, report);
  report.metrics = MetricMeans{results.totals[owed->parity].metrics};
  tell_nonfinite(engine, report);
  auto const own_times = engine.session.own_times.add(report, engine);
  if (engine.session.reporter) {
    engine.session.reporter->see(report, engine.session.samples,
                                 events_of_metrics(engine.session, results.totals[owed->parity].metrics), own_times);
  }
  return report;
}

optim::StepSums sums_of_step(EngineState const& engine) {
  auto sums = engine.session.accumulator->sums(engine.runtime.job->stop_requested(), seconds_of_rank_0(engine));
  if (engine.session.checkpoints) {
    engine.session.checkpoints->add_to(sums);
  }
  return sums;
}

void end_step(EngineState& engine) {
  engine.session.protocol->end_step();
  engine.record_addends();
  auto const steps = engine.session.protocol->steps();
  auto const& settings = engine.settings();
  engine.session.samples += settings.batch.train;
  if (settings.check && steps % replica_check_steps == 0) {
    auto const after = fmt::format("step {}", steps);
    engine.compare_replicas(shard::States::with, after);
    engine.compare_ties(shard::States::with, after);
  }
  engine.session.accumulator->close(steps, engine.counters());
  if (engine.session.reporter) {
    engine.session.reporter->close(steps);
  }
  if (steps - engine.session.first_step == 2 && !settings.check) {
    engine.runtime.set_options({.timeout = settings.timeout});
  }
}

}  // namespace zeroth::engine
