// SPDX-License-Identifier: Apache-2.0
#include "engine/step_recording.hpp"

#include <fmt/format.h>

#include <array>
#include <span>

#include "engine/step_end.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {

using detail::EngineState;

namespace {

/// The setting that makes a step need the host, with the value to set instead; empty if there is none.
std::string refused_setting(Settings const& settings) {
  if (settings.check) {
    return "zeroth.check is true: ranks compare their calls on the host; allowed: false";
  }
  if (settings.delayed_update) {
    return "zeroth.delayed_update is true: a step applies the update of the one before; allowed: false";
  }
  if (settings.replay_every > 0) {
    return fmt::format("zeroth.replay_every is {}: such steps run a micro-step twice; allowed: 0",
                       settings.replay_every);
  }
  auto const& reports = settings.reports;
  if (reports.wall_clock_breakdown || reports.comms.enabled || reports.flops.enabled) {
    return "wall_clock_breakdown, comms_logger.enabled or flops_profiler.enabled is true: they time what a step "
           "enqueues; allowed: false";
  }
  if (shard::encodes_momenta(settings)) {
    return "optimizer.type is OneBitAdam, whose steps differ before and after freeze_step; allowed: other optimizers";
  }
  return {};
}

LaunchedCounts counts_of(EngineCounters const& now) noexcept {
  return {now.gathered, now.reduced, now.prefetch_misses};
}

}  // namespace

std::string why_not_recorded(EngineState const& engine) {
  auto const& runtime = engine.runtime;
  if (auto why = runtime.device->why_no_graphs(); !why.empty()) {
    return why;
  }
  if (auto why = runtime.communicators->gather().all()->why_no_graphs(); !why.empty()) {
    return why;
  }
  if (auto why = refused_setting(engine.settings()); !why.empty()) {
    return why;
  }
  if (runtime.has_pipeline() || runtime.tensor) {
    return "zeroth.mesh has pipeline stages or tensor ranks; allowed: 1 of each";
  }
  if (!engine.sharded.manager->memory.offloaded().empty()) {
    return "zero_optimization.offload_optimizer or offload_param keeps states on another device; allowed: none";
  }
  if (!engine.session.activation_waits.empty()) {
    return "the program has an ActivationStore, which waits on the host";
  }
  if (engine.session.traced) {
    return "trace() records a timeline; call trace(nullptr) first";
  }
  return {};
}

std::vector<std::byte const*> StepRecording::slots() const {
  std::vector<std::byte const*> result;
  for (auto const flat : engine_->sharded.blueprint.layout.flats().ids()) {
    result.push_back(engine_->sharded.manager->parameters.slot_of(flat));
  }
  return result;
}

void StepRecording::begin_capture() {
  auto const& runtime = engine_->runtime;
  std::array<device::Stream*, 2> const streams{runtime.gather_stream.get(), runtime.reduce_stream.get()};
  runtime.device->begin_capture(streams);
}

void StepRecording::launch(device::Graph& graph, std::string_view purpose) {
  auto const& runtime = engine_->runtime;
  runtime.communicators->gather().all()->watch_graphs(runtime.device->compute(), {purpose, "recorded step"},
                                                      [&graph] { graph.launch(); });
}

void StepRecording::begin() {
  auto& schedule = *engine_->sharded.schedule;
  auto const& session = engine_->session;
  schedule.start_over();
  schedule.set_starts_over(true);
  slots_ = slots();
  counts_ = counts_of(engine_->counters());
  steps_before_ = session.protocol->steps();
  metrics_ = session.metrics.size();
  factors_taken_ = session.factors_taken;
  begin_capture();
}

void StepRecording::begin_update(optim::StepRules const& rules) {
  rules_ = rules;
  sums_ = engine_->session.accumulator->sums(false, 0);
  parity_ = engine_->session.accumulator->parity();
  passes_ = engine_->runtime.device->end_capture();
  launch(*passes_, "passes");
  engine_->sharded.manager->optimizer.note_launch();
  begin_capture();
}

void StepRecording::end() {
  ZEROTH_EXPECTS(passes_ != nullptr && engine_->session.protocol->steps() == steps_before_ + 1,
                 fmt::format("record(): its function made {} steps; allowed: 1, from the first micro-step to step()",
                             engine_->session.protocol->steps() - steps_before_));
  engine_->sharded.schedule->set_starts_over(false);
  update_ = engine_->runtime.device->end_capture();
  launch(*update_, "update");
  ZEROTH_EXPECTS(slots() == slots_, "a recorded step left other units in the slots than it found there");
  auto const now = counts_of(engine_->counters());
  counts_ = {now.gathered - counts_.gathered, now.reduced - counts_.reduced,
             now.prefetch_misses - counts_.prefetch_misses};
}

void StepRecording::abandon() noexcept {
  engine_->sharded.schedule->set_starts_over(false);
  try {
    static_cast<void>(engine_->runtime.device->end_capture());
  } catch (...) {  // the device has failed, or had no capture under way
  }
}

void StepRecording::expect_unchanged() const {
  auto const& session = engine_->session;
  ZEROTH_EXPECTS(session.metrics.size() == metrics_,
                 fmt::format("replay() of a step that was recorded with {} metrics, and the engine has {} now: record "
                             "again",
                             metrics_, session.metrics.size()));
  ZEROTH_EXPECTS(session.factors_taken == factors_taken_ && session.rate_factors.empty(),
                 "replay() after set_learning_rate_factors(): the recorded update has the factors of before; record "
                 "again");
  ZEROTH_EXPECTS(!session.traced, "replay() while trace() records a timeline; call trace(nullptr) first");
}

void StepRecording::launch() {
  auto& session = engine_->session;
  auto& optimizer = engine_->sharded.manager->optimizer;
  session.await_saved();
  if (slots() != slots_) {
    engine_->sharded.schedule->start_over();
  }
  session.accumulator->set_parity(parity_);
  session.accumulator->call_log().add(Verb::replay);
  auto sums = sums_of_step(*engine_);
  sums.call_hash = engine_->noted_call_log().hash();
  sums.weight = sums_.weight;
  session.finished = false;
  optimizer.prepare_launch(sums, rules_, parity_);
  launch(*passes_, "passes");
  optimizer.note_launch();
  launch(*update_, "update");
  session.launched = {session.launched.gathered + counts_.gathered, session.launched.reduced + counts_.reduced,
                      session.launched.prefetch_misses + counts_.prefetch_misses};
  end_step(*engine_);
}

}  // namespace zeroth::engine
