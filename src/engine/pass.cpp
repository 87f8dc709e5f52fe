// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/pass.hpp"

#include <fmt/format.h>
#include <bit>
#include <cstdint>
#include <exception>

#include "core/host_name.hpp"
#include "engine/engine_state.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {

using detail::EngineState;
using engine::CallGuard;
using engine::Verb;
using stage::PassKind;
using stage::Phase;
using stage::Turn;

namespace {

[[nodiscard]] std::int64_t end_of(engine::ShardedModel const& sharded) {
  return sharded.schedule->order().turns(PassKind::training);
}

detail::Guard open(EngineState& engine, Phase phase, Unit of_model) {
  CallGuard const call_guard{engine.session.thread_check, stage::name_of(phase).data()};
  auto const unit = engine.runtime.share.local(of_model, stage::name_of(phase).data());
  engine.session.protocol->check_open(phase, unit);
  auto const turn = engine.or_end([&] {
    auto const pass = *engine.session.protocol->pass();
    auto const& order = engine.sharded.schedule->order();
    if (Turn const next{pass, phase, unit.id()};
        pass == PassKind::training && engine.session.protocol->action() == nullptr) {
      bool const early = order.opens_early(next);
      engine.settle_skips(early ? end_of(engine.sharded) / 2 : order.position(next));
      if (!early) {
        engine.session.protocol->arrive(order.position(next));
      }
    }
    auto const begun = engine.session.protocol->begin_turn(phase, unit.id());
    engine.record(begun);
    engine.sharded.schedule->open(begun);
    return begun;
  });
  engine.runtime.device->compute().begin_span(stage::purpose_of(turn), engine.sharded.model->units[turn.unit].name);
  return {engine, engine.session.protocol->opened(turn)};
}

void end_micro_step(EngineState& engine) {
  engine.settle_skips(end_of(engine.sharded));
  engine.session.protocol->end_micro_step();
  engine.sharded.schedule->end_pass();
}

void end_action(EngineState& engine) {
  auto const index = static_cast<std::size_t>(engine.session.protocol->actions());
  auto const action = *engine.session.protocol->action();
  bool const is_last = engine.runtime.share.is_last(action.chunk);
  bool const sends = action.phase == Phase::forward            ? !is_last
                     : action.phase == Phase::backward_weights ? false
                                                               : action.chunk > 0;
  engine.session.protocol->end_action(is_last, sends);
  if (engine.runtime.channels) {  // before all else: other stages wait for this message, and at the end of a step this
                                  // stage waits for them
    engine.runtime.channels->end(engine.sharded.blueprint.pipeline.script, index);
  }
  engine.sharded.schedule->end_pass();
}

/// Prepares the schedule for the action that has begun.
void begin_turns(EngineState& engine, std::size_t index, stage::Action const& action) {
  auto const& settings = engine.settings();
  auto const left = static_cast<int>(settings.batch.accumulation) - action.micro_step;
  bool const writes = stage::writes_gradients(action.phase);
  bool const last = writes && left == 1;
  bool const reduces = writes && (last || settings.reduce_gradients == ReduceGradients::every_micro_step);
  engine.sharded.schedule->set_run(shard::Run::once, engine.session.protocol->steps() + 1);
  if (engine.runtime.has_pipeline()) {
    engine.sharded.schedule->begin_sweep(index, reduces, last);
  } else {
    engine.sharded.schedule->begin_pass(PassKind::training, left, reduces, last);
  }
}

stage::Sweep sweep_of(EngineState const& engine, std::size_t index, stage::Action const& action) {
  return engine.runtime.has_pipeline()
             ? engine.sharded.blueprint.pipeline.sweeps[index]
             : stage::Sweep{action.phase, 0, static_cast<std::uint32_t>(engine.sharded.model->units.size())};
}

/// The open action; during an evaluation, the action that its pass stands for.
stage::Action open_action(EngineState const& engine) noexcept {
  auto const* const evaluation = engine.session.protocol->evaluation();
  if (evaluation == nullptr) {
    auto const* const action = engine.session.protocol->action();
    return action == nullptr ? stage::Action{} : *action;
  }
  stage::PipelineSize const size{engine.runtime.share.stages(), evaluation->chunks,
                                 evaluation->passes / evaluation->chunks};
  return stage::action_of_evaluation(size, engine.runtime.share.stage(), evaluation->done);
}

void end_evaluation_pass(EngineState& engine) {
  auto& evaluation = *engine.session.protocol->evaluation();
  auto const chunk = open_action(engine).chunk;
  bool const is_last = engine.runtime.share.is_last(chunk);
  if (!engine.session.protocol->end_evaluation_pass(is_last, !is_last)) {
    return;
  }
  if (engine.runtime.channels) {
    engine.runtime.channels->end_evaluation_pass(chunk);
    auto const chunks = evaluation.chunks;
    auto const in_round = evaluation.done % (engine.runtime.share.stages() * chunks);
    engine.session.protocol->note_messages(chunks > 1 && in_round != 0 && evaluation.done < evaluation.passes);
  }
  if (evaluation.done == evaluation.passes) {
    auto& call_log = engine.noted_call_log();
    evaluation.mine.call_hash = call_log.hash();
    auto const total = engine.sharded.manager->optimizer.sum_evaluation(evaluation.mine);
    engine.check_call_logs(total, call_log, engine.session.protocol->steps() + 1, engine.runtime.exchange().world());
    call_log.settle();
    evaluation.total = total;
  }
}

/// Whether reports count: those of the first of two runs do not.
bool counts(engine::Session const& session) { return session.protocol->run() != shard::Run::first_of_two; }
/// Whether this rank adds its reports: of tensor ranks, which all report the same, only the first does.
bool adds_reports(EngineState const& engine) { return engine.runtime.counts() && counts(engine.session); }

/// Compares the losses of a micro-step that runs twice.
void compare_losses(engine::Session& session, float mean) {
  auto const run = session.protocol->run();
  if (run == shard::Run::first_of_two) {
    session.first_run_loss = mean;
  }
  if (run == shard::Run::second_of_two &&
      std::bit_cast<std::uint32_t>(mean) != std::bit_cast<std::uint32_t>(session.first_run_loss)) {
    throw SystemError{fmt::format(
        "step {}: the first micro-step ran twice (zeroth.replay_every), and its loss was {} and then {}: "
        "either the processor or the memory of {} is faulty, or the program does not compute the same twice from the "
        "same samples. Take samples by first_sample(), and random numbers by random()",
        session.protocol->steps() + 1, session.first_run_loss, mean, host_name())};
  }
}

void expect_not_recorded(EngineState const& engine, char const* call, char const* why) {
  ZEROTH_EXPECTS(engine.session.recording == nullptr, fmt::format("{} while a StepGraph records: {}", call, why));
}

void note_loss(EngineState& engine, LossOptions const& options) {
  engine.session.protocol->check_loss(options);
  engine.session.protocol->loss_reported();
}

/// Returns the seed: the factor for the gradient of the loss.
float take_loss(EngineState& engine, LossOptions const& options) {
  note_loss(engine, options);
  if (*engine.session.protocol->pass() != PassKind::training) {
    return 0.0F;
  }
  if (engine.settings().rules.loss_scale.dynamic) {
    expect_not_recorded(engine, "report_loss() with a dynamic loss scale (fp16.loss_scale is 0)",
                        "every replay would have this step's scale; call report_loss_on_device()");
  }
  return engine.sharded.manager->optimizer.loss_scale() * options.weight * engine.session.gradient_prescale;
}

}  // namespace

AnyPass::AnyPass(EngineState& engine)
    : engine_{&engine}, begun_by_{std::this_thread::get_id()}, exceptions_{std::uncaught_exceptions()} {
  CallGuard const call_guard{engine.session.thread_check, "a micro-step begins"};
  engine.session.protocol->begin_micro_step();
  auto const& settings = engine.settings();
  auto const left = static_cast<int>(settings.batch.accumulation) - engine.session.protocol->micro_steps();
  auto const run = engine.session.protocol->run();
  bool const counts = run != shard::Run::first_of_two;
  bool const last = counts && left == 1;
  bool const reduces = counts && (last || settings.reduce_gradients == ReduceGradients::every_micro_step);
  engine.sharded.schedule->set_run(run, engine.session.protocol->steps() + 1);
  engine.sharded.schedule->begin_pass(PassKind::training, counts ? left : left + 1, reduces, last);
  engine.session.accumulator->call_log().add(Verb::begin_micro_step);
  engine.session.finished = false;
}

AnyPass::AnyPass(detail::EvaluationRecord& evaluation)
    : engine_{evaluation.engine}, begun_by_{std::this_thread::get_id()}, exceptions_{std::uncaught_exceptions()} {
  CallGuard const call_guard{engine_->session.thread_check, "an evaluation pass begins"};
  if (engine_->runtime.channels) {
    engine_->session.protocol->check_no_message("an evaluation pass begins");
  }
  engine_->session.protocol->begin_evaluation_pass(evaluation);
  engine_->sharded.schedule->begin_pass(PassKind::evaluation, evaluation.passes - evaluation.done, false, false);
  engine_->session.accumulator->call_log().add(Verb::begin_evaluation);
  engine_->session.finished = false;
}

AnyPass::AnyPass(EngineState& engine, detail::NextAction)
    : engine_{&engine}, begun_by_{std::this_thread::get_id()}, exceptions_{std::uncaught_exceptions()} {
  CallGuard const call_guard{engine.session.thread_check, "an action begins"};
  auto& protocol = *engine.session.protocol;
  protocol.check_begin_action();
  auto const index = static_cast<std::size_t>(protocol.actions());
  auto const action = engine.action_at(protocol.actions());
  protocol.begin_action(action, sweep_of(engine, index, action));
  begin_turns(engine, index, action);
  engine.session.accumulator->call_log().add(Verb::begin_action, static_cast<std::uint32_t>(index));
  engine.session.finished = false;
  if (engine.runtime.channels) {
    try {
      engine.or_end([&] { engine.runtime.channels->begin(engine.sharded.blueprint.pipeline.script, index); });
    } catch (...) {
      protocol.leave_pass();  // the destructor will not run
      throw;
    }
  }
}

AnyPass::~AnyPass() {
  auto& protocol = *engine_->session.protocol;
  CallGuard const call_guard{engine_->session.thread_check};
  try {
    call_guard.expect_alone("the end of a pass");
    protocol.check_end_of_pass(engine::in_unwinding(begun_by_, exceptions_));
    if (!protocol.failure() && protocol.action() != nullptr) {
      end_action(*engine_);
    } else if (!protocol.failure()) {
      *protocol.pass() == PassKind::training ? end_micro_step(*engine_) : end_evaluation_pass(*engine_);
    }
  } catch (...) {
    engine_->fail(std::current_exception());
  }
  protocol.leave_pass();
}

detail::Guard AnyPass::open_forward(Unit unit) { return open(*engine_, Phase::forward, unit); }
detail::Guard AnyPass::open_backward(Unit unit) { return open(*engine_, Phase::backward, unit); }
detail::Guard AnyPass::open_inputs(Unit unit) { return open(*engine_, Phase::backward_inputs, unit); }
detail::Guard AnyPass::open_weights(Unit unit) { return open(*engine_, Phase::backward_weights, unit); }

std::int64_t AnyPass::first_sample() const noexcept {
  auto const& batch = engine_->settings().batch;
  auto const& protocol = *engine_->session.protocol;
  auto const exchange = engine_->runtime.exchange();  // its ranks are places
  bool const evaluates = protocol.evaluation() != nullptr;
  auto const pass =
      evaluates || protocol.action() != nullptr ? open_action(*engine_).micro_step : protocol.micro_steps();
  return (evaluates ? 0 : engine_->session.samples) +
         (std::int64_t{pass} * exchange.world() + exchange.rank()) * batch.micro;
}

bool AnyPass::runs_again() const noexcept {
  return engine_->session.protocol->evaluation() == nullptr && !counts(engine_->session);
}

Random AnyPass::random(std::int64_t row, std::uint32_t use) const {
  auto const rows = engine_->settings().batch.micro;
  ZEROTH_EXPECTS(row >= 0 && row < rows,
                 fmt::format("random(): row {} of a micro-batch; allowed: 0 to {}", row, rows - 1));
  expect_not_recorded(*engine_, "random()", "every replay would have the same numbers");
  return {engine_->sharded.model->seed, engine_->session.protocol->steps(), first_sample() + row, use};
}

float AnyPass::report_loss(float mean, LossOptions const& options) {
  CallGuard const call_guard{engine_->session.thread_check, "report_loss()"};
  if (engine_->session.protocol->evaluation() != nullptr) {
    engine_->session.protocol->check_usable("report_loss()");
    engine_->session.protocol->check_action_loss(engine_->runtime.share.is_last(open_action(*engine_).chunk));
  }
  expect_not_recorded(*engine_, "report_loss() of a number", "every replay would report it; report a DeviceLoss");
  float const seed = take_loss(*engine_, options);
  if (auto* const evaluation = engine_->session.protocol->evaluation(); evaluation == nullptr) {
    compare_losses(engine_->session, mean);
    if (adds_reports(*engine_)) {
      engine_->session.accumulator->add_loss(mean, options.weight);
    }
  } else if (options.weight > 0 && engine_->runtime.counts()) {
    evaluation->mine.loss += static_cast<double>(options.weight) * static_cast<double>(mean);
    evaluation->mine.weight += static_cast<double>(options.weight);
  }
  return seed;
}

float AnyPass::report_action_loss(float mean, LossOptions const& options) {
  CallGuard const call_guard{engine_->session.thread_check, "report_loss()"};
  expect_not_recorded(*engine_, "report_loss() of a number", "every replay would report it; report a DeviceLoss");
  auto& protocol = *engine_->session.protocol;
  protocol.check_usable("report_loss()");
  protocol.check_action_loss(protocol.action() != nullptr && engine_->runtime.share.is_last(protocol.action()->chunk));
  protocol.check_loss(options);
  protocol.loss_reported();
  if (adds_reports(*engine_)) {
    engine_->session.accumulator->add_loss(mean, options.weight);
  }
  return engine_->sharded.manager->optimizer.loss_scale() * options.weight * engine_->session.gradient_prescale;
}

Phase AnyPass::action_phase() const noexcept { return engine_->session.protocol->action()->phase; }
int AnyPass::action_chunk() const noexcept { return open_action(*engine_).chunk; }
int AnyPass::action_micro_step() const noexcept { return engine_->session.protocol->action()->micro_step; }
int AnyPass::action_slot() const noexcept {
  auto const& slots = engine_->sharded.blueprint.pipeline.script.slots.activations;
  return slots.empty() ? 0 : slots[static_cast<std::size_t>(engine_->session.protocol->actions())];
}
bool AnyPass::is_first_chunk() const noexcept { return action_chunk() == 0; }
bool AnyPass::is_last_chunk() const noexcept { return engine_->runtime.share.is_last(action_chunk()); }
std::span<Unit const> AnyPass::action_units() const noexcept { return engine_->runtime.share.units(action_chunk()); }

detail::MessageMemory AnyPass::message(detail::Message which) const {
  using detail::Message;
  auto& engine = *engine_;
  auto& protocol = *engine.session.protocol;
  auto const& script = engine.sharded.blueprint.pipeline.script;
  auto const index = static_cast<std::size_t>(protocol.actions());
  auto const chunk = open_action(engine).chunk;
  bool const has_input = chunk > 0;
  bool const has_output = !engine.runtime.share.is_last(chunk);
  constexpr auto* first = "the first stage has none: it reads the batch";
  constexpr auto* last = "the last stage has none: it reports the loss";
  auto const samples = engine.settings().batch.micro;
  auto const memory = [&](std::byte* data, std::int64_t per_sample) {
    return detail::MessageMemory{data, samples, per_sample};
  };
  auto const of_input = engine.runtime.share.input_per_sample(chunk);
  auto const of_output = engine.runtime.share.output_per_sample(chunk);
  bool const evaluates = protocol.evaluation() != nullptr;
  switch (which) {
    case Message::input: {
      CallGuard const call_guard{engine.session.thread_check, "input()"};
      protocol.check_message("input()", has_input, first,
                             {Phase::forward, Phase::backward, Phase::backward_inputs, Phase::backward_weights});
      return memory(evaluates ? engine.or_end([&] { return engine.runtime.channels->evaluation_input(chunk); })
                              : engine.runtime.channels->input(script, index),
                    of_input);
    }
    case Message::output: {
      CallGuard const call_guard{engine.session.thread_check, "output()"};
      protocol.check_message("output()", has_output, last, {Phase::forward});
      protocol.note_written();
      return memory(evaluates ? engine.or_end([&] { return engine.runtime.channels->evaluation_output(); })
                              : engine.runtime.channels->output(),
                    of_output);
    }
    case Message::output_gradient: {
      CallGuard const call_guard{engine.session.thread_check, "output_gradient()"};
      protocol.check_message("output_gradient()", has_output, last,
                             {Phase::backward, Phase::backward_inputs, Phase::backward_weights});
      return memory(engine.runtime.channels->output_gradient(script, index), of_output);
    }
    case Message::input_gradient: break;
  }
  CallGuard const call_guard{engine.session.thread_check, "input_gradient()"};
  protocol.check_message("input_gradient()", has_input, first, {Phase::backward, Phase::backward_inputs});
  protocol.note_written();
  return memory(engine.runtime.channels->input_gradient(), of_input);
}

float AnyPass::report_loss(DeviceLoss loss, LossOptions const& options) {
  CallGuard const call_guard{engine_->session.thread_check, "report_loss()"};
  ZEROTH_EXPECTS(loss.mean != nullptr, "report_loss(): the address of the mean is null");
  float const seed = take_loss(*engine_, options);
  if (adds_reports(*engine_)) {
    engine_->session.accumulator->add_loss(loss.mean, options.weight);
  }
  return seed;
}

DeviceSeed AnyPass::report_loss_on_device(DeviceLoss loss, LossOptions const& options) {
  CallGuard const call_guard{engine_->session.thread_check, "report_loss_on_device()"};
  ZEROTH_EXPECTS(loss.mean != nullptr, "report_loss_on_device(): the address of the mean is null");
  ZEROTH_EXPECTS(!engine_->settings().delayed_update,
                 "report_loss_on_device(): zeroth.delayed_update is true, and its steps use the loss scale of the step "
                 "before the last one; call report_loss()");
  note_loss(*engine_, options);
  if (adds_reports(*engine_)) {
    engine_->session.accumulator->add_loss(loss.mean, options.weight);
  }
  return {engine_->sharded.manager->optimizer.loss_scale_on_device(), options.weight,
          engine_->session.gradient_prescale};
}

void AnyPass::report_metric(Metric metric, double sum, double weight) {
  CallGuard const call_guard{engine_->session.thread_check, "report_metric()"};
  ZEROTH_EXPECTS(metric.engine_ == engine_, "report_metric(): the metric belongs to another engine");
  expect_not_recorded(*engine_, "report_metric()", "every replay would report the same values");
  auto const& name = engine_->session.metrics[metric.index_];
  engine_->session.protocol->check_metric(name, weight);
  if (auto* const evaluation = engine_->session.protocol->evaluation(); evaluation == nullptr) {
    if (adds_reports(*engine_)) {
      engine_->session.accumulator->add_metric(metric.index_, sum, weight);
    }
  } else if (engine_->runtime.counts()) {
    evaluation->mine.metrics[metric.index_].sum += sum;
    evaluation->mine.metrics[metric.index_].weight += weight;
  }
}

void AnyPass::skip() {
  CallGuard const call_guard{engine_->session.thread_check, "skip()"};
  engine_->session.protocol->skip_pass();
  engine_->or_end([&] { engine_->settle_skips(end_of(engine_->sharded)); });
}

void AnyPass::skip(Unit unit) {
  CallGuard const call_guard{engine_->session.thread_check, "skip(unit)"};
  if (engine_->session.protocol->skip(unit)) {
    engine_->or_end([&] {
      engine_->session.accumulator->call_log().add(Verb::pass_over, unit.index());
      engine_->sharded.schedule->pass_over({PassKind::training, Phase::backward, unit.id()});
    });
  }
}

optim::StepSums const& AnyEvaluation::total(char const* call) const {
  if (!record_.total) {
    CallGuard const call_guard{record_.engine->session.thread_check, call};
    record_.engine->session.protocol->check_usable(call);
    throw ContractError{fmt::format("{} after {} of {} evaluation passes", call, record_.done, record_.passes)};
  }
  return *record_.total;
}

float AnyEvaluation::mean_loss() const {
  auto const& sums = total("mean_loss()");
  return static_cast<float>(sums.loss.value() / sums.weight.value());
}

MetricMeans AnyEvaluation::metrics() const { return MetricMeans{total("metrics()").metrics}; }

}  // namespace zeroth
