// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_state.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string_view>
#include <utility>

#include "comm/launch/job_state.hpp"
#include "core/hash.hpp"
#include "core/host_name.hpp"
#include "core/logger.hpp"
#include "stage/pipeline_check.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/core/standard_streams.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::detail {

namespace {

/// A sum over ranks in fp16 must not overflow: every seed carries 1 / 2^ceil(log2 world), and the update takes it back.
float prescale_for(shard::PlanRequest const& request, int world) noexcept {
  return request.settings.precision.reduce == Dtype::fp16 && !request.folds_into_sums
             ? 1.0F / static_cast<float>(std::bit_ceil(static_cast<unsigned>(world)))
             : 1.0F;
}

/// ": " and the message, or nothing.
std::string cause_of(std::exception_ptr const& error) {
  if (!error) {
    return {};
  }
  try {
    std::rethrow_exception(error);
  } catch (std::exception const& e) {
    return fmt::format(": {}", e.what());
  } catch (...) {
    return {};
  }
}

engine::Share share_of(Model const& model, Config const& config, Mesh const* mesh) {
  return engine::Share{model.description(), mesh == nullptr ? PipelineSettings{} : config.pipeline(),
                       mesh == nullptr ? 0 : mesh->pipeline().index};
}

/// The same on ranks that have the same.
std::uint64_t hash_of(std::vector<stage::Actions> const& lists) {
  Fnv1a hash;
  for (auto const& list : lists) {
    for (auto const& action : list) {
      for (auto const part : {static_cast<int>(action.phase), action.chunk, action.micro_step}) {
        hash.add(static_cast<std::uint64_t>(part));
      }
    }
  }
  return hash.value();
}

DeviceKind kind_of(device::Device const& device) noexcept {
  return device.has_host_memory() ? DeviceKind::cpu : DeviceKind::cuda;
}

engine::Blueprint blueprint_for(model::Description const& model, Model const& whole, Config const& config,
                                comm::Communicator const& ranks, device::Device const& device) {
  return engine::make_blueprint(model, whole.description(), config, ranks.world(),
                                {.transport = ranks.transport(), .device = kind_of(device)});
}

}  // namespace

EngineState::EngineState(Job& of, Model const& given, Config const& config) : EngineState{of, nullptr, given, config} {}
EngineState::EngineState(Mesh& mesh, Model const& given, Config const& config)
    : EngineState{mesh.data(), &mesh, given, config} {}

EngineState::EngineState(Job& of, Mesh* mesh, Model const& given, Config const& config)
    : job{&JobState::of(of)},
      share{share_of(given, config, mesh)},
      model{std::make_unique<model::Description>(share.take_part())},
      device{job->make_device()},
      blueprint{blueprint_for(*model, given, config, *job->communicator, *device)},
      communicators{*job->communicator, blueprint.settings, blueprint.request},
      doorway{blueprint.settings.check, *device},
      exceptions_at_start_{std::uncaught_exceptions()} {
  try {
    set_up(mesh, given, config);
  } catch (SystemError const&) {  // of this machine: the others cannot know
    tell_others(std::current_exception());
    end_streams();
    throw;
  } catch (...) {
    end_streams();
    throw;
  }
}

void EngineState::expect_one_stage(char const* call) const {
  if (share.stages() > 1) {
    throw ConfigError{
        fmt::format("{} of an engine whose zeroth.mesh.pipeline is {}: allowed there is 1. The actions of a stage are "
                    "those of schedule()",
                    call, share.stages())};
  }
}

bool EngineState::speaks() const noexcept { return share.first() && exchange().rank() == 0; }

stage::Action EngineState::action_at(std::int64_t index) const noexcept {
  return has_pipeline() ? blueprint.pipeline.script.actions[static_cast<std::size_t>(index)]
                        : stage::action_of_only_stage(settings().pipeline.schedule, index);
}

std::int64_t EngineState::actions_in_step() const noexcept {
  return has_pipeline() ? std::ssize(blueprint.pipeline.script.actions)
                        : settings().batch.accumulation * stage::actions_per_micro_step(settings().pipeline.schedule);
}

int EngineState::in_flight() const noexcept {
  return has_pipeline() ? blueprint.pipeline.script.slots.most_activations : 1;
}

void EngineState::make_pipeline(Mesh& mesh, Model const& given, Config const& config) {
  if (auto const refused = engine::refused_pipeline(settings(), job->communicator->transport(), kind_of(*device));
      !refused.empty() && device->holds_values()) {
    throw ConfigError{fmt::format("{}: {}", config.source(), refused)};
  }
  auto const lists = engine::lists_of(settings());
  stage::check(lists, engine::size_of(settings()));
  auto& line = *mesh.stages_;
  stages = line.communicator().split(0, line.rank(), engine::name_of_stages);
  auto& all = mesh.whole().communicator();
  all_stages = all.split(0, share.stage() * exchange().world() + exchange().rank(), "whole");
  for (auto* const each : {stages.get(), all_stages.get()}) {
    each->set_options({.timeout = settings().timeout, .check = true});
  }
  agree_over_stages(model::fingerprint(given.description()), hash_of(lists));
  std::vector<std::int64_t> input_counts;
  for (int chunk = 0; chunk < share.all_chunks(); ++chunk) {
    input_counts.push_back(share.input_per_sample(chunk) * settings().batch.micro);
  }
  channels = std::make_unique<engine::Channels>(line, *device, blueprint.pipeline.messages, std::move(input_counts));
  channels->set_options({.timeout = settings().timeout, .check = settings().check});
}

void EngineState::set_options(comm::CommOptions const& options) {
  communicators.set_options(options);
  for (auto* const each : {stages.get(), all_stages.get()}) {
    if (each != nullptr) {
      each->set_options(options);
    }
  }
}

/// Each rank has found the same as the ranks of its stage.
void EngineState::agree_over_stages(std::uint64_t of_model, std::uint64_t of_schedule) {
  std::array const mine{of_model, Fnv1a{}.characters(stage_file).value(), of_schedule, run_id};
  constexpr std::array said{"models (units, parameters, shapes, options, initial values or seed)", "stage files",
                            "schedules (zeroth.pipeline.schedule_file)"};
  engine::Exchange const line{stages.get(), device.get(), gather_stream.get()};
  auto const all = engine::gather(std::span<std::uint64_t const>{mine}, "start", line);
  run_id = all[said.size()];
  for (std::size_t place = 0; place < all.size(); ++place) {
    if (auto const field = place % mine.size(); field < said.size() && all[place] != all[field]) {
      throw PeerError{fmt::format("ranks {} and {} built an engine from different {}: all ranks must give the same",
                                  line.job_rank(0), line.job_rank(place / mine.size()), said[field])};
    }
  }
  for (auto& rank : rooms_) {
    rank.needs.memory += static_cast<std::uint64_t>(blueprint.pipeline.messages.bytes());
  }
  std::vector<std::uint64_t> numbers;
  for (auto const& rank : rooms_) {
    auto const of_rank = rank.numbers();
    numbers.insert(numbers.end(), of_rank.begin(), of_rank.end());
  }
  auto const of_all = engine::gather(std::span<std::uint64_t const>{numbers}, "start", line);
  rooms_.clear();
  for (std::size_t at = 0; at < of_all.size(); at += engine::RankRoom::count) {
    rooms_.push_back(engine::RankRoom::of(std::span{of_all}.subspan(at).first<engine::RankRoom::count>()));
  }
  expect_room();
}

/// Where it is known what all ranks of the job hold.
void EngineState::expect_room() const {
  if (!takes_of_host_) {
    return;
  }
  auto const plan = shard::plan_memory(blueprint.layout, blueprint.request);
  bool const in_one_process = comm::traits_of(job->communicator->transport()).ranks == comm::RankKind::threads;
  if (auto const short_of = engine::shortage(plan, settings(), rooms_, in_one_process); !short_of.empty()) {
    throw ConfigError{short_of};
  }
}

void EngineState::set_up(Mesh* mesh, Model const& given, Config const& config) {
  auto const& settings = blueprint.settings;
  auto const kind = device->name().starts_with("cuda") ? DeviceKind::cuda : DeviceKind::cpu;
  if (auto const refused = engine::refused_offload(settings.offload, kind);
      !refused.empty() && device->holds_values()) {
    throw ConfigError{refused};
  }
  if (auto const refused = engine::refused_same_bits(settings, job->communicator->transport()); !refused.empty()) {
    throw ConfigError{refused};
  }
  if (!settings.flight_recorder.empty()) {
    job->set_flight_folder(settings.flight_recorder);
  }
  if (job->compute_stream) {
    device->compute_on(*job->compute_stream);
  }
  communicators.set_options({.timeout = settings.timeout, .check = true});  // the first two steps are always checked
  auto const overlap = settings.overlap_comm ? device::Overlap::on : device::Overlap::off;
  gather_stream = device->make_stream("gather", overlap);
  reduce_stream = device->make_stream("reduce", overlap);
  agree(config);
  if (has_pipeline()) {
    make_pipeline(*mesh, given, config);
  } else {
    expect_room();
  }
  if (settings.reports.comms.enabled && speaks()) {
    calls = std::make_unique<shard::CallLog>();
  }
  shard::ManagerContext const context{.device = device.get(),
                                      .gather_stream = gather_stream.get(),
                                      .reduce_stream = reduce_stream.get(),
                                      .gather = communicators.gather(),
                                      .reduce = communicators.reduce(),
                                      .model = model.get(),
                                      .layout = &blueprint.layout,
                                      .stages = stages.get(),
                                      .calls = calls.get(),
                                      .registers_memory = settings.register_memory};
  manager = std::make_unique<shard::ShardManager>(context, blueprint.request,
                                                  optim::initial_state(settings.rules.loss_scale));
  schedule = std::make_unique<stage::Schedule>(blueprint.layout, settings, blueprint.limits, *manager);
  protocol.emplace(*model, schedule->order(),
                   engine::StepSize{static_cast<int>(settings.batch.accumulation), actions_in_step()},
                   settings.replay_every);
  gradient_prescale = prescale_for(blueprint.request, exchange().world());
  if (device->holds_values()) {
    manager->values.initialise();
    compare_replicas(shard::States::without, "initialisation");
    if (speaks()) {
      tell_user(config);
      reporter = std::make_unique<engine::Reporter>(engine::ReporterContext{
          .settings = &settings,
          .model = model.get(),
          .device = device.get(),
          .calls = calls.get(),
          .log = [prefix =
                      std::string{rank_prefix()}](std::string const& line) { logger().info("{}{}", prefix, line); },
      });
    }
  }
  for (auto& param : model->params) {
    param.init = {};  // functions hold on to what the program has
  }
  book.emplace(meters());
}

void EngineState::tell_user(Config const& config) const {
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
  if (auto const note = engine::stage_note(settings()); !note.empty()) {
    logger().info("{}{}", rank_prefix(), note);
  }
  if (auto const why = engine::ranks_note(blueprint); !why.empty()) {
    logger().info("{}on another number of ranks the same global batch has other roundings: {}", rank_prefix(), why);
  }
  std::vector<std::string> warnings{engine::prefetch_warning(blueprint), engine::sum_warning(settings()),
                                    engine::two_level_note(settings()), crossing_};
  for (auto const* const offloaded : manager->memory.offloaded()) {
    warnings.push_back(offloaded->warning());
  }
  for (auto const& warning : warnings) {
    if (!warning.empty()) {
      logger().warn("{}{}", rank_prefix(), warning);
    }
  }
}

EngineState::~EngineState() {
  engine::Entry const entry{doorway};
  if (protocol->pass()) {  // which will use this engine when it ends
    auto const why = fmt::format("{}the engine ended while {}: it must outlive its passes and guards", rank_prefix(),
                                 protocol->state());
    print_error(why);
    communicators.gather().all()->abort(why);
    std::abort();
  }
  checkpoints.reset();
  auto const& failure = protocol->failure();
  if (failure || (std::uncaught_exceptions() > exceptions_at_start_ && !finished)) {
    tell_others(failure);
  }
  end_streams();
  if (reporter) {
    reporter->end();
  }
}

/// The streams may hold collectives that other ranks will never join: to be called before the streams are joined.
void EngineState::tell_others(std::exception_ptr const& error) noexcept {
  auto& all = *communicators.gather().all();
  all.abort(fmt::format("the engine of rank {} ended by an error{}", all.job_rank(all.rank()), cause_of(error)));
}

void EngineState::end_streams() noexcept {
  channels.reset();
  gather_stream.reset();
  reduce_stream.reset();
  try {
    device->compute().synchronize();  // the caller's kernels may still use what ends now
  } catch (...) {                     // of a device that failed: nothing runs on it any more
  }
}

void EngineState::agree(Config const& config) {
  stage_file = config.to_json();
  std::random_device random;
  auto const own_id = (std::uint64_t{random()} << 32U) | random();
  takes_of_host_ =
      device->holds_values() && (device->has_host_memory() || blueprint.request.offload.tier == shard::Tier::host);
  auto const unusable = takes_of_host_ ? engine::make_folders(settings().offload) : std::string{};
  auto const left =
      takes_of_host_ ? engine::room(settings().offload.folder, settings().offload.parameter_folder) : engine::Room{};
  std::array const mine{model::fingerprint(*model),
                        Fnv1a{}.characters(stage_file).value(),
                        own_id,
                        Fnv1a{}.characters(host_name()).value(),
                        left.memory_of_machine,
                        left.memory_of_process,
                        left.disk,
                        left.parameters_disk,
                        left.one_disk ? std::uint64_t{1} : std::uint64_t{0},
                        unusable.empty() ? std::uint64_t{0} : std::uint64_t{1}};
  constexpr std::array said{"models (units, parameters, shapes, options, initial values or seed)", "stage files"};
  auto const all = engine::gather(std::span<std::uint64_t const>{mine}, "start", exchange());
  for (std::size_t place = 0; place < all.size(); ++place) {
    if (auto const field = place % mine.size(); field < said.size() && all[place] != all[field]) {
      throw PeerError{fmt::format("ranks {} and {} built an engine from different {}: all ranks must give the same",
                                  exchange().job_rank(0), exchange().job_rank(place / mine.size()), said[field])};
    }
  }
  for (std::size_t place = 0; place * mine.size() < all.size(); ++place) {
    if (all[(place + 1) * mine.size() - 1] != 0) {  // one machine may have what another has not
      throw ConfigError{unusable.empty() ? fmt::format("rank {} can make no file in the folder of nvme_path",
                                                       exchange().job_rank(place))
                                         : unusable};
    }
  }
  run_id = all[said.size()];
  std::vector<std::uint64_t> machines(static_cast<std::size_t>(exchange().world()));
  rooms_.resize(machines.size());
  auto const needs = engine::needs_of(shard::plan_memory(blueprint.layout, blueprint.request), settings());
  for (std::size_t place = 0; place < machines.size(); ++place) {
    auto const rank = static_cast<std::size_t>(blueprint.request.places.rank_at(static_cast<int>(place)));
    auto const* const said_by = &all[place * mine.size()];
    constexpr std::size_t machine = 3;
    machines[rank] = said_by[machine];
    rooms_[rank] = {said_by[machine],
                    {said_by[machine + 1], said_by[machine + 2], said_by[machine + 3], said_by[machine + 4],
                     said_by[machine + 5] != 0},
                    needs};
  }
  crossing_ = engine::crossing_warning(settings(), machines);
}

MemoryBytes EngineState::planned() const noexcept {
  auto bytes = manager->memory.plan().bytes;
  bytes.slots += channels ? channels->bytes() : 0;
  return bytes;
}

engine::Meters EngineState::meters() const {
  auto const traffic = manager->traffic();
  engine::Meters now;
  now.now = device->now();
  now.waited_ms = device->compute().waited_ms() + gather_stream->host_ms() + reduce_stream->host_ms();
  for (auto const* const offloaded : manager->memory.offloaded()) {
    now.io_ms += offloaded->held_up_ms();
    now.disks.read_bytes += offloaded->traffic().read_bytes;
    now.disks.written_bytes += offloaded->traffic().written_bytes;
  }
  now.save_ms = checkpoints ? checkpoints->waited_ms() : 0;
  now.gathered = traffic.gathered;
  now.reduced = traffic.reduced;
  now.bubble_ms = channels ? channels->waited_ms() : 0;
  now.prefetch_misses = schedule->prefetch_misses();
  now.parameter_slots = manager->parameters.slots_high_water();
  now.gradient_slots = manager->gradients.slots_high_water();
  return now;
}

void EngineState::claim(std::filesystem::path const& folder) {
  if (!claimed || !claimed->holds(folder)) {
    claimed.reset();  // the same folder by another name is free then
    claimed = std::make_unique<checkpoint::FolderLock>(folder, fmt::format("{:016x}", run_id));
  }
}

void EngineState::await_saved() const {
  if (checkpoints) {
    checkpoints->await_read();
  }
}

void EngineState::fail(std::exception_ptr error) noexcept {
  protocol->fail(std::move(error));
  schedule->abandon();
}

void EngineState::meet(std::string_view purpose) {
  comm::Collective const barrier{};
  bool const gathers_first = blueprint.request.placements.parameters != shard::Placement::whole;
  for (bool const gather : {gathers_first, !gathers_first}) {
    auto const& ranks = gather ? communicators.gather() : communicators.reduce();
    ranks.all()->submit(gather ? *gather_stream : *reduce_stream, {purpose, ""}, {&barrier, 1});
  }
  gather_stream->synchronize();
  reduce_stream->synchronize();
}

void EngineState::compare_replicas(shard::States states, std::string const& after) {
  if (device->holds_values()) {
    manager->parameters.await_gathers();
    engine::compare_replicas(*manager, blueprint.layout, states, after, exchange());
  }
}

void EngineState::check_histories(optim::StepSums const& total, engine::History const& mine, std::int64_t step) {
  if (total.history != exchange().world() * mine.hash()) {
    // All ranks have just met on this communicator. After they went apart they may not meet on another one.
    engine::Exchange const sums{communicators.reduce().all(), device.get(), reduce_stream.get()};
    engine::compare_histories(mine, step, *model, sums);
    engine::compare_transactions(manager->memory.transactions(), step, blueprint.layout, sums);
    throw PeerError{fmt::format(
        "ranks took different paths in step {}, after its first {} calls, which were the same: all ranks must "
        "make the same calls in the same order",
        step, mine.settled() + std::ssize(mine.calls()))};
  }
}

void EngineState::record(stage::Turn const& turn) {
  using engine::Verb;
  if (!schedule->order().opens_early(turn)) {
    constexpr std::array verbs{Verb::forward, Verb::backward, Verb::backward_inputs, Verb::backward_weights};
    auto const verb = verbs[static_cast<std::size_t>(turn.phase)];
    bool const evaluates = protocol->evaluation() != nullptr && verb == Verb::forward;
    book->history().add(evaluates ? Verb::evaluation : verb, index_of(turn.unit));
  }
}

void EngineState::settle_skips(std::int64_t position) {
  while (auto const turn = protocol->next_skipped(position)) {
    record(*turn);
    schedule->open(*turn);
    schedule->close(*turn);
  }
}

engine::History& EngineState::noted_history() {
  auto& history = book->history();
  history.note_transactions(manager->memory.transactions_hash());
  return history;
}

}  // namespace zeroth::detail
