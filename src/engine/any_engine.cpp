// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/any_engine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <utility>

#include "comm/launch/job_state.hpp"
#include "core/hash.hpp"
#include "core/logger.hpp"
#include "engine/engine_state.hpp"
#include "engine/replicas.hpp"
#include "engine/restore.hpp"
#include "engine/server.hpp"
#include "engine/server_calls.hpp"
#include "engine/step_end.hpp"
#include "engine/step_recording.hpp"
#include "engine/tensor_ranks.hpp"
#include "engine/weight_files.hpp"
#include "zeroth/checkpoint/folder.hpp"
#include "zeroth/checkpoint/record.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/engine/engine.hpp"

namespace zeroth {

using detail::EngineState;
using engine::CallGuard;
using engine::Verb;

namespace {

void check_types(Config const& config, Dtype compute, Dtype gradient) {
  auto const refuse = [](char const* what, Dtype file, Dtype program, char const* key) {
    throw ConfigError{
        fmt::format("the stage file says {} dtype {} ({}), but the program's Engine is built for {}; change "
                    "the file, or choose the types with zeroth::with_precision",
                    what, name_of(file), key, name_of(program))};
  };
  if (config.compute_dtype() != compute) {
    refuse("compute", config.compute_dtype(), compute, "fp16.enabled, bf16.enabled");
  }
  if (config.gradient_dtype() != gradient) {
    refuse("gradient", config.gradient_dtype(), gradient, "zeroth.gradient_dtype");
  }
}

/// Only here, because a delayed update, which this step's passes have applied, uses the factors of its own step.
void take_rate_factors(EngineState& engine) {
  auto& factors = engine.session.rate_factors;
  if (factors.empty()) {
    return;
  }
  for (auto const& [param, factor] : factors) {
    engine.sharded.model->params[param].options.learning_rate_factor = factor;
  }
  engine.sharded.manager->optimizer.follow_factors();
  factors.clear();
  ++engine.session.factors_taken;
}

void compare_tensor_gradients(EngineState& engine) {
  if (engine.compares_tensor_gradients()) {
    auto const step = engine.session.protocol->steps() + 1;
    auto const tensor = engine.runtime.over_tensor();
    engine::compare_whole_gradients(*engine.sharded.manager, engine.runtime.exchange().rank(), step, tensor);
    engine::compare_addends(*engine.sharded.manager, step, tensor);
  }
}

void check_save(std::filesystem::path const& folder, SaveOptions const& options) {
  ZEROTH_EXPECTS(!folder.empty(), "save(): the folder's name is empty");
  ZEROTH_EXPECTS(std::ssize(options.program_state) <= SaveOptions::largest_program_state,
                 fmt::format("save(): program_state has {} bytes; allowed are up to {}", options.program_state.size(),
                             SaveOptions::largest_program_state));
  ZEROTH_EXPECTS(options.keep.value_or(0) >= 0,
                 fmt::format("save(): keep is {}; allowed: 0 (all) or more", *options.keep));
  ZEROTH_EXPECTS(options.keep_every >= 0,
                 fmt::format("save(): keep_every is {}; allowed: 0 (none) or more", options.keep_every));
  ZEROTH_EXPECTS(options.keep_for.count() >= 0,
                 fmt::format("save(): keep_for is {} s; allowed: 0 (none) or more", options.keep_for.count()));
}

engine::WholeModel whole_model(EngineState const& engine) {
  auto const& runtime = engine.runtime;
  return {*engine.sharded.manager, runtime.share, runtime.part, runtime.exchange(), runtime.whole()};
}

}  // namespace

AnyEngine::AnyEngine(Job& job, Model const& model, Config const& config)
    : AnyEngine{job, model, config, config.compute_dtype(), config.gradient_dtype()} {}

AnyEngine::AnyEngine(Job& job, Model const& model, Config const& config, Dtype compute, Dtype gradient)
    : state_{(check_types(config, compute, gradient), std::make_unique<EngineState>(job, model, config))},
      accumulation_{static_cast<int>(state_->settings().batch.accumulation)} {}

AnyEngine::AnyEngine(Mesh& mesh, Model const& model, Config const& config)
    : AnyEngine{mesh, model, config, config.compute_dtype(), config.gradient_dtype()} {}

AnyEngine::AnyEngine(Mesh& mesh, Model const& model, Config const& config, Dtype compute, Dtype gradient)
    : state_{(check_types(config, compute, gradient), std::make_unique<EngineState>(mesh, model, config))},
      accumulation_{static_cast<int>(state_->settings().batch.accumulation)} {}

AnyEngine::~AnyEngine() = default;

int AnyEngine::in_flight() const noexcept { return state_->in_flight(); }

int AnyEngine::actions_in_step() const {
  static_cast<void>(state_->of_worker("schedule()", engine::Recorded::yes));
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  auto const actions = state_->actions_in_step();
  ZEROTH_EXPECTS(actions <= most, fmt::format("schedule(): the step has {} actions; allowed: up to {}", actions, most));
  return static_cast<int>(actions);
}

int AnyEngine::passes_in_step() const {
  static_cast<void>(state_->of_worker("micro_steps()", engine::Recorded::yes));
  state_->runtime.expect_one_stage("micro_steps()");
  return accumulation_ + (state_->session.protocol->replay_is_due() ? 1 : 0);
}

bool AnyEngine::serves() const noexcept { return state_->runtime.serves(); }

void AnyEngine::serve() {
  auto& engine = *state_;
  CallGuard const call_guard{engine.session.thread_check, "serve()"};
  ZEROTH_EXPECTS(serves(),
                 "serve() on a rank that is no parameter server: call it if serves() says so, which the last "
                 "zeroth.parameter_server.servers ranks of the job do");
  engine.session.protocol->check_between_steps("serve()");
  engine.or_end([&] { engine::serve(engine); });
}

std::optional<StepReport> AnyEngine::step(StepOptions const& options) {
  auto& engine = state_->of_worker("step()", engine::Recorded::yes);
  CallGuard const call_guard{engine.session.thread_check, "step()"};
  engine.session.protocol->check_step(options.learning_rate);
  ZEROTH_EXPECTS(
      engine.session.recording == nullptr || !options.learning_rate,
      "step() with a learning rate while a StepGraph records: it would be that of every replay; use the stage "
      "file's scheduler, which the device follows");
  return engine.or_end([&] {
    auto report = engine::take_report(engine);
    auto& accumulator = *engine.session.accumulator;
    if (options.learning_rate) {  // ranks that give different rates get an error about that
      accumulator.call_log().add(Verb::learning_rate, std::bit_cast<std::uint32_t>(*options.learning_rate));
    }
    auto const rules = engine::rules_for(engine, options);
    engine.noted_call_log();
    compare_tensor_gradients(engine);
    engine::order_step(engine, options);
    engine.sharded.manager->optimizer.decide(engine::sums_of_step(engine), accumulator.losses(), rules,
                                             accumulator.parity());
    engine::push_step(engine, options);
    take_rate_factors(engine);
    if (engine.session.recording != nullptr) {
      engine.session.recording->begin_update(rules);
    }
    engine.sharded.schedule->update();
    engine::end_step(engine);
    return report;
  });
}

std::optional<StepReport> AnyEngine::finish() {
  auto& engine = state_->of_worker("finish()");
  CallGuard const call_guard{engine.session.thread_check, "finish()"};
  engine.session.protocol->check_between_passes("finish()");
  engine.or_end([&] {
    if (auto report = engine::take_report(engine)) {
      engine.session.kept_report = report;
    }
    if (engine.session.protocol->is_between_steps()) {
      engine.settle_update();
    }
    if (engine.session.checkpoints) {
      engine.session.checkpoints->settle();
    }
    engine.runtime.gather_stream->synchronize();
    engine.runtime.reduce_stream->synchronize();
    engine.runtime.device->compute().synchronize();
    if (engine.runtime.channels) {
      engine.runtime.channels->synchronize();
    }
    engine.session.finished = true;
  });
  if (engine.session.checkpoints) {
    engine.session.checkpoints->rethrow();
  }
  return std::exchange(engine.session.kept_report, std::nullopt);
}

void AnyEngine::trace(Timeline* timeline) {
  CallGuard const call_guard{state_->session.thread_check, "trace()"};
  state_->session.protocol->check_between_passes("trace()");
  state_->session.await_saved();  // the saver's thread adds to the timeline
  state_->session.traced = timeline != nullptr;
  state_->runtime.device->flush_timeline();
  if (state_->session.reporter) {
    state_->session.reporter->trace(timeline);
  } else {
    state_->runtime.device->set_timeline(timeline);
  }
}

void AnyEngine::add_monitor(std::unique_ptr<Monitor> monitor) {
  CallGuard const call_guard{state_->session.thread_check, "add_monitor()"};
  ZEROTH_EXPECTS(monitor != nullptr, "add_monitor(): the monitor is null");
  if (state_->session.reporter) {
    state_->session.reporter->add(std::move(monitor));
  }
}

std::string AnyEngine::communication() const {
  CallGuard const call_guard{state_->session.thread_check, "communication()"};
  state_->session.protocol->check_between_passes("communication()");
  return state_->session.reporter ? state_->session.reporter->communication() : std::string{};
}

detail::EvaluationRecord AnyEngine::begin_evaluation(int passes) {
  static_cast<void>(state_->of_worker("evaluation()"));
  CallGuard const call_guard{state_->session.thread_check, "evaluation()"};
  if (state_->runtime.channels) {
    state_->session.protocol->check_no_message("evaluation()");
  }
  auto const id = state_->session.protocol->begin_evaluation(passes);
  auto const chunks = state_->runtime.share.all_chunks() / state_->runtime.share.stages();
  ZEROTH_EXPECTS(
      passes <= std::numeric_limits<int>::max() / chunks,
      fmt::format("evaluation({}) with {} chunks per stage has more passes than an int can count", passes, chunks));
  return {state_.get(), id, passes * chunks, chunks};
}

Metric AnyEngine::add_metric(std::string_view name) {
  auto& engine = state_->of_worker("add_metric()");
  CallGuard const call_guard{engine.session.thread_check, "add_metric()"};
  engine.session.protocol->check_between_passes("add_metric()");
  auto& names = engine.session.metrics;
  ZEROTH_EXPECTS(!name.empty(), "add_metric(): the name is empty");
  ZEROTH_EXPECTS(std::ranges::find(names, name) == names.end(),
                 fmt::format("add_metric(): the metric \"{}\" exists already", name));
  ZEROTH_EXPECTS(names.size() < optim::most_metrics,
                 fmt::format("add_metric() of \"{}\": an engine has at most {} metrics, and this one has {}", name,
                             optim::most_metrics, fmt::join(names, ", ")));
  engine.session.accumulator->call_log().add(Verb::add_metric, Fnv1a32{}.characters(name).value());
  names.emplace_back(name);
  engine.sharded.manager->optimizer.set_metrics(names.size());
  return {&engine, names.size() - 1};
}

void AnyEngine::save_weights(std::filesystem::path const& file) {
  auto& engine = state_->of_worker("save_weights()");
  CallGuard const call_guard{engine.session.thread_check, "save_weights()"};
  engine.session.protocol->check_between_passes("save_weights()");
  engine.session.accumulator->call_log().add(Verb::save_weights);
  auto const results = engine.or_end([&] {
    engine.meet("save_weights");
    return engine.runtime.servers ? engine::save_weights_on_servers(engine, file)
                                  : engine::save_weights(whole_model(engine), file, engine.settings().saved_weights);
  });
  engine::throw_if_failed("save_weights() failed and changed nothing", results);
}

void AnyEngine::load_weights(std::filesystem::path const& file,
                             std::function<bool(std::string const& name)> const& left_out) {
  auto& engine = state_->of_worker("load_weights()");
  CallGuard const call_guard{engine.session.thread_check, "load_weights()"};
  engine.session.protocol->check_between_passes("load_weights()");
  engine.session.protocol->check_not_swapped("load_weights()");
  ZEROTH_EXPECTS(
      !left_out || !engine.runtime.servers,
      "load_weights() with `left_out` and parameter servers (zeroth.parameter_server.servers), which read the "
      "file and do not have the program's function; allowed: a file of the model's parameters alone");
  engine.session.accumulator->call_log().add(Verb::load_weights);
  auto const results = engine.or_end([&] {
    engine.meet("load_weights");
    engine.settle_update();
    engine.session.await_saved();
    auto found = engine.runtime.servers ? engine::load_weights_on_servers(engine, file)
                                        : engine::load_weights(whole_model(engine), file, left_out);
    if (std::ranges::none_of(found, &engine::RankResult::failed)) {
      engine.compare_replicas(shard::States::without, "load_weights()");
      engine.compare_ties(shard::States::without, "load_weights()");
    }
    return found;
  });
  engine::throw_if_failed("load_weights() failed and changed nothing", results);
}

Saving AnyEngine::save(std::filesystem::path const& folder, SaveOptions const& options) {
  auto& engine = state_->of_worker("save()");
  CallGuard const call_guard{engine.session.thread_check, "save()"};
  engine.session.protocol->check_between_steps("save()");
  engine.session.protocol->check_not_swapped("save()");
  check_save(folder, options);
  engine.session.accumulator->call_log().add(options.rank_state ? Verb::save_with_rank_state : Verb::save,
                                             Fnv1a32{}.characters(folder.string()).value());
  if (engine.runtime.servers) {
    ZEROTH_EXPECTS(
        !options.rank_state,
        "save(): rank_state is not supported with zeroth.parameter_server.servers above 0: servers write the "
        "checkpoint; leave it out, or gather what ranks need into program_state");
    engine::save_on_servers(engine, folder, options);
    return Saving{engine, 0, folder / checkpoint::checkpoint_name(engine.session.protocol->steps())};
  }
  engine.or_end([&] {
    engine.settle_update();
    if (!engine.session.checkpoints) {
      engine.session.checkpoints = std::make_unique<engine::Checkpoints>(engine);
    }
    engine.session.checkpoints->settle();
  });
  auto saving = engine.or_end([&] {
    auto const number = engine.session.checkpoints->save(folder, options);
    return Saving{engine, number, engine.session.checkpoints->path()};
  });
  engine.session.checkpoints->rethrow();  // only after this save has started: it is another attempt
  return saving;
}

void AnyEngine::claim(std::filesystem::path const& folder) {
  auto& engine = state_->of_worker("claim()");
  CallGuard const call_guard{engine.session.thread_check, "claim()"};
  engine.session.protocol->check_between_steps("claim()");
  ZEROTH_EXPECTS(!folder.empty(), "claim(): the folder's name is empty");
  engine.runtime.servers ? engine::claim_on_servers(engine, folder) : engine::claim(engine, folder);
}

bool Saving::done() const noexcept {
  return !engine_->session.checkpoints || engine_->session.checkpoints->done(number_);  // with servers, save() has
                                                                                        // waited for it
}

void Saving::wait() {
  auto& engine = *engine_;
  CallGuard const call_guard{engine.session.thread_check, "Saving::wait()"};
  engine.session.protocol->check_between_passes("Saving::wait()");
  if (!done()) {
    engine.or_end([&] { engine.session.checkpoints->settle(); });
  }
  if (engine.session.checkpoints) {
    engine.session.checkpoints->rethrow(number_);
  }
}

std::optional<std::string> Saving::failure() {
  auto& engine = *engine_;
  CallGuard const call_guard{engine.session.thread_check, "Saving::failure()"};
  if (!engine.session.checkpoints) {
    return std::nullopt;  // servers saved, and save() has thrown
  }
  auto why = engine.session.checkpoints->take_failure(number_);
  if (why) {
    engine.session.accumulator->call_log().add(Verb::save_failure);
  }
  return why;
}

namespace {
void check_restore(engine::Session const& session, char const* call) {
  session.protocol->check_restore();
  session.protocol->check_not_swapped(call);
  ZEROTH_EXPECTS(
      !session.accumulator->owes() && !session.kept_report,
      fmt::format("{}: the report of step {} is pending; call finish() first", call, session.protocol->steps()));
}
}  // namespace

Restored AnyEngine::restore(std::filesystem::path const& path, RestoreOptions const& options) {
  auto& engine = state_->of_worker("restore()");
  CallGuard const call_guard{engine.session.thread_check, "restore()"};
  check_restore(engine.session, "restore()");
  return engine.runtime.servers ? engine::restore_on_servers(engine, path, options)
                                : engine::restore(engine, path, options);
}

std::optional<Restored> AnyEngine::restore_latest(std::filesystem::path const& folder, RestoreOptions const& options) {
  auto& engine = state_->of_worker("restore_latest()");
  CallGuard const call_guard{engine.session.thread_check, "restore_latest()"};
  check_restore(engine.session, "restore_latest()");
  return engine.runtime.servers ? engine::restore_latest_on_servers(engine, folder, options)
                                : engine::restore_latest(engine, folder, options);
}

int AnyEngine::place() const noexcept { return state_->runtime.exchange().rank(); }
std::int64_t AnyEngine::first_sample() const noexcept { return state_->session.samples; }
std::int64_t AnyEngine::micro_batch() const noexcept { return state_->settings().batch.micro; }
Dtype AnyEngine::compute_dtype() const noexcept { return state_->settings().precision.compute; }
Dtype AnyEngine::gradient_dtype() const noexcept { return state_->settings().precision.gradient; }
MemoryBytes AnyEngine::peak() const noexcept { return state_->runtime.device->ledger().peak(); }
MemoryBytes AnyEngine::planned() const noexcept { return state_->planned(); }
std::int64_t AnyEngine::bytes_on_disk() const { return state_->sharded.offloaded_bytes(shard::Tier::disk); }
std::int64_t AnyEngine::bytes_of_host() const { return state_->sharded.offloaded_bytes(shard::Tier::host); }
std::int64_t AnyEngine::staging_bytes() const noexcept {
  return state_->session.checkpoints == nullptr ? 0 : state_->session.checkpoints->staging_bytes();
}
device::StreamRef AnyEngine::compute_stream() const noexcept { return state_->runtime.device->compute().native(); }

void detail::refuse_precision(Config const& config, std::span<DtypePair const> allowed) {
  std::string names;
  for (auto const& [compute, gradient] : allowed) {
    names += fmt::format("{}{} with gradients in {}", names.empty() ? "" : ", ", name_of(compute), name_of(gradient));
  }
  throw ConfigError{fmt::format(
      "the stage file says compute dtype {} (fp16.enabled, bf16.enabled) with gradients in {} (zeroth.gradient_dtype), "
      "but the program is built for {}; change the file, or let with_precision() offer more types",
      name_of(config.compute_dtype()), name_of(config.gradient_dtype()), names)};
}

}  // namespace zeroth
