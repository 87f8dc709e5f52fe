// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_state.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/launch/job_state.hpp"
#include "core/logger.hpp"
#include "engine/replicas.hpp"
#include "engine/server.hpp"
#include "engine/server_plan.hpp"
#include "engine/tensor_ranks.hpp"
#include "stage/pipeline_check.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/tool/core/standard_streams.hpp"

namespace zeroth::detail {

namespace {

/// The factor that keeps a sum over ranks in fp16 from overflowing: the loss seed carries 1 / 2^ceil(log2 world), and
/// the update removes it.
float prescale_for(shard::PlanRequest const& request, int world) noexcept {
  return request.settings.precision.reduce == Dtype::fp16 && !request.folds_into_sums
             ? 1.0F / static_cast<float>(std::bit_ceil(static_cast<unsigned>(world)))
             : 1.0F;
}

}  // namespace

EngineState::EngineState(Job& of, Model const& given, Config const& config) : EngineState{of, nullptr, given, config} {}
EngineState::EngineState(Mesh& mesh, Model const& given, Config const& config)
    : EngineState{mesh.data(), config.parameter_server().servers > 0 ? nullptr : &mesh, given, config} {}

EngineState::EngineState(Job& of, Mesh* mesh, Model const& given, Config const& config)
    : runtime{(engine::expect_tensor_part(given, config, mesh), of), given, config, mesh},
      sharded{runtime, given, config},
      session{settings().check, *runtime.device},
      exceptions_at_start_{std::uncaught_exceptions()} {
  runtime.communicators.emplace(*runtime.job->communicator, settings(), sharded.blueprint.request);
  try {
    set_up(mesh, given, config);
  } catch (SystemError const&) {  // the failure is this machine's: other ranks do not know about it
    runtime.tell_others(std::current_exception());
    runtime.end_streams();
    throw;
  } catch (...) {
    runtime.end_streams();
    throw;
  }
}

stage::Action EngineState::action_at(std::int64_t index) const noexcept {
  return runtime.has_pipeline() ? sharded.blueprint.pipeline.script.actions[static_cast<std::size_t>(index)]
                                : stage::action_of_only_stage(settings().pipeline.schedule, index);
}

std::int64_t EngineState::actions_in_step() const noexcept {
  return runtime.has_pipeline()
             ? std::ssize(sharded.blueprint.pipeline.script.actions)
             : settings().batch.accumulation * stage::actions_per_micro_step(settings().pipeline.schedule);
}

int EngineState::in_flight() const noexcept {
  return runtime.has_pipeline() ? sharded.blueprint.pipeline.script.slots.most_activations : 1;
}

void EngineState::join_mesh(Mesh& mesh, Model const& given, Config const& config, engine::Start& start) {
  auto const transport = runtime.job->communicator->transport();
  if (auto const refused = engine::refused_mesh(settings(), transport, runtime.kind());
      !refused.empty() && runtime.device->holds_values()) {
    throw ConfigError{fmt::format("{}: {}", config.source(), refused)};
  }
  std::vector<stage::Actions> lists;
  if (runtime.has_pipeline()) {
    lists = engine::lists_of(settings());
    stage::check(lists, engine::size_of(settings()));
  }
  runtime.join_mesh(mesh, settings());
  start.agree_over_mesh(lists, given);
  start.expect_room();
  if (runtime.has_pipeline()) {
    runtime.make_channels(mesh, sharded.blueprint.pipeline.messages, settings());
  }
}

void EngineState::join_servers(engine::Start& start) {
  runtime.servers->connect(*runtime.device, sharded.blueprint.layout.flats().size(),
                           {.timeout = settings().timeout, .check = settings().check});
  start.agree_with_servers();
  start.expect_room();
}

EngineState& EngineState::of_worker(char const* call, engine::Recorded recorded) {
  ZEROTH_EXPECTS(
      session.recording == nullptr || recorded == engine::Recorded::yes,
      fmt::format("{} while a StepGraph records: a recorded step has micro-steps and step(), and nothing else", call));
  ZEROTH_EXPECTS(!runtime.serves(),
                 fmt::format("{} on a parameter server (zeroth.parameter_server.servers): servers call serve(), and "
                             "nothing else: if (engine.serves()) {{ engine.serve(); return; }}",
                             call));
  return *this;
}

void EngineState::compare_replicas(shard::States states, std::string const& after) {
  if (runtime.servers && runtime.servers->pushes > 0) {
    return;  // workers that may be stale have parameters of different updates
  }
  sharded.compare_replicas(states, after, runtime.exchange());
  if (runtime.tensor && runtime.device->holds_values()) {
    engine::compare_tensor_replicas(*sharded.manager, states, after, runtime.over_tensor());
  }
}

void EngineState::set_up(Mesh* mesh, Model const& given, Config const& config) {
  auto const& settings = sharded.settings();
  auto& device = *runtime.device;
  if (auto const refused = engine::refused_offload(settings.offload, runtime.kind());
      !refused.empty() && device.holds_values()) {
    throw ConfigError{refused};
  }
  if (auto const refused = engine::refused_optimizer(settings, runtime.kind());
      !refused.empty() && device.holds_values()) {
    throw ConfigError{fmt::format("{}: {}", config.source(), refused)};
  }
  if (auto const refused = engine::refused_servers(settings, runtime.job->communicator->transport(), runtime.kind());
      !refused.empty() && device.holds_values()) {
    throw ConfigError{fmt::format("{}: {}", config.source(), refused)};
  }
  if (auto const refused = engine::refused_same_bits(settings, runtime.job->communicator->transport());
      !refused.empty()) {
    throw ConfigError{refused};
  }
  if (!settings.flight_recorder.empty()) {
    runtime.job->set_flight_folder(settings.flight_recorder);
  }
  if (runtime.job->compute_stream) {
    device.compute_on(*runtime.job->compute_stream);
  }
  runtime.set_options({.timeout = settings.timeout, .check = true});  // the first two steps are always checked
  runtime.make_streams(settings.overlap_comm ? device::Overlap::on : device::Overlap::off);
  engine::Start start{runtime, sharded, config};
  start.agree();
  if (runtime.servers) {
    join_servers(start);
  } else if (runtime.has_pipeline() || runtime.part.of > 1) {
    join_mesh(*mesh, given, config, start);
  } else {
    start.expect_room();
  }
  session.stage_file = start.stage_file();
  session.run_id = start.run_id();
  sharded.allocate(runtime);
  session.protocol.emplace(*sharded.model, sharded.schedule->order(),
                           engine::StepSize{static_cast<int>(settings.batch.accumulation), actions_in_step()},
                           settings.replay_every);
  session.gradient_prescale = prescale_for(sharded.blueprint.request, runtime.workers());
  if (device.holds_values()) {
    sharded.manager->values.initialise();
    compare_replicas(shard::States::without, "initialisation");
    compare_ties(shard::States::without, "initialisation");
    if (runtime.speaks()) {
      tell_user(config, start.warning());
      session.reporter = std::make_unique<engine::Reporter>(engine::ReporterContext{
          .settings = &settings,
          .model = sharded.model.get(),
          .device = &device,
          .calls = sharded.calls.get(),
          .log = [prefix =
                      std::string{rank_prefix()}](std::string const& line) { logger().info("{}{}", prefix, line); },
      });
    }
  }
  for (auto& param : sharded.model->params) {
    param.init = {};  // init functions may capture objects of the program
  }
  session.accumulator.emplace(counters());
  record_addends();
}

bool EngineState::compares_tensor_gradients() const noexcept {
  auto const step = session.protocol->steps() + 1;
  bool const is_due = step - session.first_step <= 2 || step % engine::replica_check_steps == 0;
  return is_due && runtime.tensor && runtime.device->holds_values() && settings().check;
}

void EngineState::tell_user(Config const& config, std::string const& of_start) const {
  for (auto const& line : engine::notes_of(config)) {
    logger().warn("{}{}", rank_prefix(), line);
  }
  auto const& reports = settings().reports;
  if (reports.dump_state) {
    logger().info("{}the stage file, resolved (dump_state):\n{}", rank_prefix(), config.to_string());
  }
  if (reports.memory_breakdown) {
    logger().info("{}planned for each rank: {}", rank_prefix(), engine::in_words(planned()));
  }
  for (auto const& note : {engine::stage_note(settings()), engine::bucket_note(sharded.blueprint)}) {
    if (!note.empty()) {
      logger().info("{}{}", rank_prefix(), note);
    }
  }
  if (auto const why = engine::ranks_note(sharded.blueprint); !why.empty()) {
    logger().info("{}on another number of ranks the same global batch has other roundings: {}", rank_prefix(), why);
  }
  std::vector<std::string> warnings{engine::prefetch_warning(sharded.blueprint), engine::sum_warning(settings()),
                                    engine::two_level_note(settings()), of_start};
  for (auto const* const offloaded : sharded.manager->memory.offloaded()) {
    warnings.push_back(offloaded->warning());
  }
  for (auto const& warning : warnings) {
    if (!warning.empty()) {
      logger().warn("{}{}", rank_prefix(), warning);
    }
  }
}

EngineState::~EngineState() {
  engine::CallGuard const call_guard{session.thread_check};
  if (session.protocol->pass()) {  // the open pass would use this engine in its destructor
    auto const why = fmt::format("{}the engine was destroyed while {}: it must outlive its passes and guards",
                                 rank_prefix(), session.protocol->state());
    print_error(why);
    runtime.communicators->gather().all()->abort(why);
    std::abort();
  }
  session.checkpoints.reset();
  auto const& failure = session.protocol->failure();
  if (failure || (std::uncaught_exceptions() > exceptions_at_start_ && !session.finished)) {
    runtime.tell_others(failure);
  } else if (runtime.servers && !runtime.serves()) {
    engine::order_end(*this);
  }
  runtime.end_streams();
  if (session.reporter) {
    session.reporter->end();
  }
}

MemoryBytes EngineState::planned() const noexcept {
  auto bytes = sharded.manager->memory.plan().bytes;
  bytes.slots += runtime.channels ? runtime.channels->bytes() : 0;
  return bytes;
}

engine::EngineCounters EngineState::counters() const {
  auto const traffic = sharded.manager->traffic();
  engine::EngineCounters now;
  now.now = runtime.device->now();
  now.bubble_ms = runtime.channels ? runtime.channels->waited_ms() : 0;
  now.waited_ms = runtime.device->compute().waited_ms() - now.bubble_ms + runtime.gather_stream->host_ms() +
                  runtime.reduce_stream->host_ms();
  for (auto const* const offloaded : sharded.manager->memory.offloaded()) {
    now.io_ms += offloaded->held_up_ms();
    now.disks.read_bytes += offloaded->traffic().read_bytes;
    now.disks.written_bytes += offloaded->traffic().written_bytes;
  }
  now.save_ms = session.checkpoints ? session.checkpoints->waited_ms() : 0;
  now.activation_ms = session.ended_activation_ms;
  for (auto const* const waits : session.activation_waits) {
    now.activation_ms += waits->waited_ms();
  }
  now.gathered = traffic.gathered + session.launched.gathered;
  now.reduced = traffic.reduced + session.launched.reduced;
  now.prefetch_misses = sharded.schedule->prefetch_misses() + session.launched.prefetch_misses;
  now.parameter_slots = sharded.manager->parameters.slots_high_water();
  now.gradient_slots = sharded.manager->gradients.slots_high_water();
  return now;
}

void EngineState::fail(std::exception_ptr error) noexcept {
  session.protocol->fail(std::move(error));
  sharded.schedule->abandon();
}

void EngineState::settle_update() {
  if (settings().delayed_update) {
    sharded.schedule->settle();
    sharded.manager->parameters.await_gathers();
    if (session.protocol->is_between_steps()) {  // otherwise this step has begun with another loss scale
      sharded.manager->optimizer.settle();
    }
  }
}

void EngineState::meet(std::string_view purpose) {
  runtime.meet(purpose, sharded.blueprint.request.placements.parameters != shard::Placement::whole);
}

void EngineState::check_call_logs(optim::StepSums const& total, engine::CallLog const& mine, std::int64_t step,
                                  int ranks) {
  if (total.call_hash != ranks * mine.hash()) {
    // All ranks have just met on this communicator. After a divergence they may not meet on another one.
    engine::Exchange const sums{runtime.communicators->reduce().all(), runtime.device.get(),
                                runtime.reduce_stream.get()};
    engine::compare_call_logs(mine, step, *sharded.model, sums);
    engine::compare_transactions(sharded.manager->memory.transactions(), step, sharded.blueprint.layout, sums);
    throw PeerError{fmt::format(
        "ranks took different paths in step {}, after its first {} calls, which were the same: all ranks must "
        "make the same calls in the same order",
        step, mine.settled() + std::ssize(mine.calls()))};
  }
}

void EngineState::record(stage::Turn const& turn) {
  using engine::Verb;
  if (!sharded.schedule->order().opens_early(turn)) {
    constexpr std::array verbs{Verb::forward, Verb::backward, Verb::backward_inputs, Verb::backward_weights};
    auto const verb = verbs[static_cast<std::size_t>(turn.phase)];
    bool const evaluates = session.protocol->evaluation() != nullptr && verb == Verb::forward;
    session.accumulator->call_log().add(evaluates ? Verb::evaluation : verb, index_of(turn.unit));
  }
}

void EngineState::settle_skips(std::int64_t position) {
  while (auto const turn = session.protocol->next_skipped(position)) {
    record(*turn);
    sharded.schedule->open(*turn);
    sharded.schedule->close(*turn);
  }
}

engine::CallLog& EngineState::noted_call_log() {
  auto& call_log = session.accumulator->call_log();
  call_log.note_transactions(sharded.manager->memory.transactions_hash());
  return call_log;
}

}  // namespace zeroth::detail
