// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

#include "checkpoint/saver.hpp"
#include "comm/describe.hpp"
#include "engine/communicators.hpp"
#include "engine/planned_activations.hpp"
#include "engine/planning.hpp"
#include "engine/server_plan.hpp"
#include "engine/share.hpp"
#include "stage/gather_count.hpp"
#include "stage/pipeline_check.hpp"
#include "stage/policy.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth {

using shard::Placement;

namespace {

std::vector<PlannedSlots> planned(shard::SlotCounts const& counts, Dtype dtype) {
  std::vector<PlannedSlots> slots;
  for (auto const& c : counts.classes) {
    slots.push_back({c.slots, c.capacity_count, std::ssize(c.flats), c.fp32 ? Dtype::fp32 : dtype});
  }
  return slots;
}

PlannedTier planned(shard::DiskPlan const& disk) {
  std::int64_t largest = 0;
  for (auto const& tile : disk.tiles) {
    largest = std::max(largest, tile.elements.count());
  }
  return {.bytes = disk.bytes,
          .read_bytes = disk.read_bytes,
          .written_bytes = disk.written_bytes,
          .tiles = std::ssize(disk.tiles),
          .largest_tile_count = largest,
          .tiles_in_memory = disk.tiles_in_memory,
          .memory_bytes = disk.memory_bytes()};
}

PlannedParametersDisk planned_parameters(shard::MemoryPlan const& memory, engine::Blueprint const& blueprint) {
  auto const& [settings, layout, limits, request, pipeline] = blueprint;
  auto const& disk = memory.parameters_disk;
  if (disk.bytes == 0) {
    return {};
  }
  PlannedParametersDisk result{.bytes = disk.bytes,
                               .read_bytes = disk.read_bytes,
                               .written_bytes = disk.written_bytes,
                               .buffer_count = disk.tile_bytes / bytes_of(settings.precision.compute),
                               .buffers = disk.buffers(),
                               .memory_bytes = disk.memory_bytes()};
  auto const counted = stage::count_gathers(layout, settings, limits);
  std::int64_t gathered_bytes = 0;
  for (auto const flat : memory.flats.ids()) {
    if (memory.flats[flat].parameters_on_disk >= 0) {
      ++result.units;
      gathered_bytes += counted.gathers[flat] * shard::bytes_read_to_gather(layout.flats()[flat], request);
    }
  }
  result.read_bytes += gathered_bytes / counted.steps;
  return result;
}

void count_elements(shard::Layout const& layout, Plan& plan) {
  plan.units = layout.unit_count();
  for (auto const& flat : layout.flats()) {
    plan.flat_units += flat.apart.params.empty() ? 1 : 0;
    plan.parameter_count += flat.used_count();
    plan.padded_count += flat.padded_count();
    if (flat.used_count() > plan.largest_flat_unit_count) {
      plan.largest_flat_unit = flat.name;
      plan.largest_flat_unit_count = flat.used_count();
    }
  }
}

PlannedPersistence persistent_in(shard::Layout const& layout, Settings const& settings) {
  PlannedPersistence persistent;
  for (auto const& flat : layout.flats()) {
    if (flat.persistent) {
      persistent.parameters += std::ssize(flat.trainable.params) + std::ssize(flat.frozen.params);
      persistent.count += flat.used_count();
      persistent.bytes += flat.padded_count() * bytes_of(shard::precision_of(flat, settings).compute);
    }
  }
  return persistent;
}

/// Bytes of states of all tensor ranks, and of errors of all ranks. A parameter that every tensor rank holds whole is
/// saved once.
std::int64_t checkpoint_bytes(shard::Layout const& layout, Settings const& settings) {
  std::int64_t bytes = 0;
  for (auto const& flat : layout.flats()) {
    auto const precision = shard::precision_of(flat, settings);
    if (shard::keeps_errors(flat, settings)) {
      auto const copies = layout.world() + (shard::encodes_momenta(settings) ? 1 : 0);
      bytes += copies * flat.gradients().padded_count * bytes_of(Dtype::fp32);
    }
    if (!flat.speaks) {
      continue;
    }
    auto const times = flat.tensor_kind == shard::TensorKind::cut ? settings.tensor_ranks : 1;
    auto const states = optim::state_count(shard::update_of(flat, settings));
    bytes += times * (flat.trainable.padded_count * (bytes_of(precision.master) + states * bytes_of(precision.states)) +
                      flat.frozen.padded_count * bytes_of(precision.compute));
  }
  return bytes;
}

/// The plan of one pipeline stage, or of the whole model without a pipeline.
Plan plan_of(engine::Blueprint const& blueprint, PlanOptions const& options) {
  auto const& [settings, layout, limits, request, pipeline] = blueprint;
  Plan result;
  result.settings = settings;
  result.device = options.device;
  count_elements(layout, result);
  auto const memory = shard::plan_memory(layout, request);
  result.bytes = memory.bytes;
  result.bytes.slots += pipeline.messages.bytes();
  result.padding = memory.padding;
  result.checkpoint_bytes = checkpoint_bytes(layout, settings);
  result.staging_bytes = checkpoint::staging_bytes(options.device == DeviceKind::cpu, settings.checkpoint.buffer_bytes);
  (memory.disk.tier == shard::Tier::disk ? result.disk : result.host) = planned(memory.disk);
  result.parameters_disk = planned_parameters(memory, blueprint);
  result.shards_parameters = request.placements.parameters != Placement::whole;
  result.shards_gradients = request.placements.gradients != Placement::whole;
  result.shards_optimizer = request.placements.optimizer != Placement::whole;
  if (result.shards_parameters) {
    result.persistent = persistent_in(layout, settings);
  }
  result.parameter_ranks = request.places.size(request.placements.parameters.cut);
  result.gradient_ranks = request.places.size(request.placements.gradients.cut);
  result.optimizer_ranks = request.places.size(request.placements.optimizer.cut);
  for (auto const& split : engine::splits_of(settings, request)) {
    result.communicators.push_back({split.name, split.ranks_with(0, request.places)});
  }
  result.parameter_slots = planned(limits.parameter_slots, settings.precision.compute);
  result.gradient_slots = planned(limits.gradient_slots, settings.precision.gradient);
  if (limits.bucket_units < std::numeric_limits<int>::max()) {
    result.most_units_in_a_bucket = limits.bucket_units;
  }
  result.notes = {engine::stage_note(settings),
                  engine::sum_warning(settings),
                  engine::two_level_note(settings),
                  engine::prefetch_warning(blueprint),
                  engine::bucket_note(blueprint),
                  engine::offload_note(settings, memory),
                  engine::parameters_note(settings, memory)};
  result.notes.push_back(engine::refused_offload(settings.offload, options.device));
  result.notes.push_back(engine::refused_optimizer(settings, options.device));
  result.notes.push_back(engine::refused_same_bits(settings, options.transport));
  result.notes.push_back(engine::refused_mesh(settings, options.transport, options.device));
  result.other_ranks = engine::ranks_note(blueprint);
  std::erase(result.notes, std::string{});
  return result;
}

/// The notes of all stages. A note that some stages lack names the first stage that has it.
std::vector<std::string> notes_of(std::vector<Plan> const& stages) {
  std::vector<std::string> notes;
  std::set<std::string> known;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (auto const& note : stages[stage].notes) {
      bool const all_have = std::ranges::all_of(
          stages, [&](Plan const& each) { return std::ranges::find(each.notes, note) != each.notes.end(); });
      if (known.insert(note).second) {
        notes.push_back(all_have ? note : fmt::format("stage {} of the pipeline: {}", stage, note));
      }
    }
  }
  return notes;
}

PlannedStage row_of(Plan const& plan, model::Description const& model, engine::StagePlan const& stage) {
  return {.first_unit = model.units.front().name,
          .units = plan.units,
          .parameter_count = plan.parameter_count,
          .in_flight = stage.script.slots.most_activations,
          .message_bytes = stage.messages.bytes(),
          .bytes = plan.bytes,
          .padding = plan.padding};
}

/// The plan of a pipeline.
Plan plan_of_stages(model::Description const& whole, Config const& config, int world, PlanOptions const& options) {
  auto const stages = config.pipeline().stages;
  auto const data_ranks = engine::data_ranks(config, world);
  std::vector<Plan> plans;
  std::vector<PlannedStage> rows;
  Plan again;  // states of parameters that an earlier stage has too
  for (int stage = 0; stage < stages; ++stage) {
    engine::Share share{whole, config.pipeline(), stage};
    auto const part = share.take_part();
    auto const blueprint = engine::make_blueprint(part, whole, config, data_ranks, options);
    if (stage == 0) {
      stage::check(engine::lists_of(blueprint.settings), engine::size_of(blueprint.settings));
    }
    plans.push_back(plan_of(blueprint, options));
    rows.push_back(row_of(plans.back(), part, blueprint.pipeline));
    for (auto const& flat : blueprint.layout.flats()) {
      if (!flat.speaks) {
        again.parameter_count += flat.used_count();
        again.padded_count += flat.padded_count();
        ++again.flat_units;
      }
    }
  }
  auto const largest = std::ranges::max_element(rows, {}, [](PlannedStage const& row) { return row.bytes.total(); });
  auto const at = static_cast<std::size_t>(largest - rows.begin());
  auto result = plans[at];
  result.largest_stage = at;
  result.notes = notes_of(plans);
  result.pipeline = std::move(rows);
  result.parameter_count = -again.parameter_count;
  result.padded_count = -again.padded_count;
  result.flat_units = -again.flat_units;
  result.units = result.checkpoint_bytes = 0;
  for (auto const& plan : plans) {
    result.parameter_count += plan.parameter_count;
    result.padded_count += plan.padded_count;
    result.units += plan.units;
    result.flat_units += plan.flat_units;
    result.checkpoint_bytes += plan.checkpoint_bytes;
    if (plan.largest_flat_unit_count > result.largest_flat_unit_count) {
      result.largest_flat_unit = plan.largest_flat_unit;
      result.largest_flat_unit_count = plan.largest_flat_unit_count;
    }
  }
  return result;
}

/// The plan of a worker, with the memory of each server.
Plan plan_with_servers(model::Description const& model, Config const& config, int workers, PlanOptions const& options) {
  auto const alone = engine::make_blueprint(model, model, config, workers, options);
  auto result = plan_of(engine::with_servers(alone, model, false), options);
  auto const server = plan_of(engine::with_servers(alone, model, true), options);
  std::int64_t pushed = 0;
  std::int64_t pulled = 0;
  shard::Layout const layout{model, result.settings.parameter_server.servers, shard::layout_options(result.settings)};
  for (auto const& flat : layout.flats()) {
    auto const precision = shard::precision_of(flat, result.settings);
    pushed += flat.gradients().padded_count * bytes_of(precision.reduce);
    pulled += flat.trainable.padded_count * bytes_of(precision.compute);
  }
  pushed *=
      result.settings.reduce_gradients == ReduceGradients::every_micro_step ? result.settings.batch.accumulation : 1;
  auto const servers = result.settings.parameter_server.servers;
  result.servers = {
      servers, server.bytes, server.padding, pushed, workers * (pushed / servers), workers * (pulled / servers)};
  result.notes.push_back(engine::refused_servers(result.settings, options.transport, options.device));
  std::erase(result.notes, std::string{});
  return result;
}

}  // namespace

Plan plan(Model const& model, Config const& config, int world, PlanOptions const& options) {
  auto const tensor_ranks = config.tensor_ranks();
  if (model.tensor_part().of != tensor_ranks) {
    throw ConfigError{
        fmt::format("{}: zeroth.mesh.tensor is {}, but the model was made for {} tensor ranks: give Model a TensorPart "
                    "with the same number",
                    config.source(), tensor_ranks, model.tensor_part().of)};
  }
  auto const& whole = model.description();
  auto const data_ranks = engine::data_ranks(config, world);
  auto result = config.pipeline().stages > 1 ? plan_of_stages(whole, config, world, options)
                : config.parameter_server().servers > 0
                    ? plan_with_servers(whole, config, data_ranks, options)
                    : plan_of(engine::make_blueprint(whole, whole, config, data_ranks, options), options);
  result.activations = engine::planned_activations(model, config, result.settings, options.device);
  result.world = world;
  result.data_ranks = data_ranks;
  result.tensor_ranks = tensor_ranks;
  result.tensor_rank_count = result.parameter_count;
  bool const narrow = result.settings.precision.compute != Dtype::fp32;
  for (auto const& param : whole.params) {
    result.parameter_count += param.global_count() - param.count;
    result.fp32_count += narrow && param.options.compute == Dtype::fp32 ? param.count : 0;
  }
  return result;
}

namespace {

std::string megabytes(std::int64_t bytes) {
  return fmt::format("{:>14} B {:>10.2f} MiB", bytes, static_cast<double>(bytes) / 0x1p20);
}

std::string readable(std::int64_t bytes) { return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / 0x1p20); }

std::string slots_line(char const* what, std::vector<PlannedSlots> const& slots, Dtype dtype) {
  std::string line = fmt::format("{}:", what);
  for (auto const& each : slots) {
    line += fmt::format(" {} x {} elements ({} units{})", each.slots, each.capacity_count, each.flat_units,
                        each.dtype == dtype ? "" : fmt::format(", {}", name_of(each.dtype)));
  }
  return line + fmt::format(", {}\n", name_of(dtype));
}

/// "exp_avg, exp_avg_sq", or "none".
std::string state_names(optim::Update const& update) {
  std::string names;
  for (auto const& state : optim::states_of(update)) {
    names += (names.empty() ? "" : ", ") + state.name;
  }
  return names.empty() ? "none" : names;
}

std::string dtypes_lines(Settings const& settings) {
  auto const& precision = settings.precision;
  auto text = fmt::format("dtypes: compute {}, gradient {}, reduce {}, accumulate {}, master {}, states {}\n",
                          name_of(precision.compute), name_of(precision.gradient), name_of(precision.reduce),
                          name_of(precision.accumulate), name_of(precision.master), name_of(precision.states));
  if (settings.matrix_update) {
    text += fmt::format("optimizer: {}, states {}; {} for parameters without ParamOptions::matrix, states {}\n",
                        settings.optimizer_name(), state_names(*settings.matrix_update),
                        optim::name_of(settings.update.rule), state_names(settings.update));
  } else {
    text += fmt::format("optimizer: {}, states {}\n", settings.optimizer_name(), state_names(settings.update));
  }
  if (settings.reduce_codec == Codec::sign || shard::encodes_momenta(settings)) {
    text += "encoding errors of signs: fp32, of whole gradients or momenta, on every rank; optimizer includes them\n";
  }
  if (precision.master == Dtype::bf16) {
    text += "the parameters are the masters: updates are rounded stochastically\n";
  }
  return text;
}

std::string groups_lines(Plan const& plan) {
  auto const& groups = plan.settings.groups;
  if (groups.count == 1) {
    return {};
  }
  auto text =
      fmt::format("groups: {} of {} consecutive rank{}{}\n", groups.count, groups.size, groups.size == 1 ? "" : "s",
                  stage::sums_by_groups(plan.settings) ? "; gradients are summed within them, then over them" : "");
  text += "communicators of rank 0:";
  for (auto const& each : plan.communicators) {
    text += fmt::format("{} {} ({})", &each == &plan.communicators.front() ? "" : ",", each.name,
                        comm::describe_ranks(each.ranks));
  }
  return text + "\n";
}

std::string slots_lines(Plan const& plan) {
  std::string text;
  if (plan.shards_parameters) {
    text += slots_line("parameter slots", plan.parameter_slots, plan.settings.precision.compute);
  }
  if (plan.shards_gradients) {
    text += slots_line("gradient slots", plan.gradient_slots, plan.settings.precision.gradient);
    if (plan.most_units_in_a_bucket) {
      text +=
          fmt::format("buckets: at most {} units, half of zeroth.gradient_slots, whatever reduce_bucket_size allows\n",
                      *plan.most_units_in_a_bucket);
    }
  } else if (stage::placements_of(plan.settings.stage).gradients == Placement::shard) {
    text += "gradients are whole: with zeroth.reduce_gradients last_micro_step they are held between micro-steps\n";
  }
  return text;
}

std::string parameters_disk_line(Plan const& plan) {
  auto const& offload = plan.settings.offload;
  auto const& disk = plan.parameters_disk;
  if (offload.parameters != OffloadDevice::nvme) {
    return {};
  }
  if (disk.bytes == 0) {
    return fmt::format("parameters on a disk: none are there, max_in_cpu keeps {} elements of each rank's in memory\n",
                       offload.parameters_in_memory_count);
  }
  return fmt::format(
      "parameters on a disk: in {}, of {} flat unit{}; {} buffers of {} elements, with {} of slots; {}; {} read in a "
      "step and {} written\n",
      offload.parameter_folder.string(), disk.units, disk.units == 1 ? "" : "s", disk.buffers, disk.buffer_count,
      readable(disk.memory_bytes),
      plan.settings.overlap_comm ? "read ahead and written behind" : "read and written when they are needed",
      readable(disk.read_bytes), readable(disk.written_bytes));
}

std::string offload_lines(Plan const& plan) {
  auto const& offload = plan.settings.offload;
  bool const to_disk = offload.optimizer == OffloadDevice::nvme;
  bool const on_cpu = offload.optimizer == OffloadDevice::cpu || offload.parameters == OffloadDevice::cpu;
  if (!to_disk && (plan.device == DeviceKind::cpu || offload.optimizer == OffloadDevice::none)) {
    return on_cpu && plan.device == DeviceKind::cpu
               ? "offload to the CPU: on a CPU states are in its memory already, and nothing changes\n"
               : "";
  }
  auto const& tier = to_disk ? plan.disk : plan.host;
  auto const* const name = to_disk ? "a disk" : "pinned memory of the host";
  if (tier.bytes == 0) {
    return fmt::format(
        "offload to {}: nothing is there, the optimizer keeps no states beside the parameters, or ratio is 0\n", name);
  }
  auto const tiles = fmt::format("ratio {:g}; {} tile{} of up to {} elements, {}", offload.ratio, tier.tiles,
                                 tier.tiles == 1 ? "" : "s", tier.largest_tile_count, tier.tiles_in_memory);
  if (!to_disk && offload.update == OffloadUpdate::host) {
    return fmt::format(
        "offload to {}, updated by the host: {} in flight at once; gradients arrive {}, parameters leave {}; {} arrive "
        "in a step and {} leave\n",
        name, tiles, offload.write_behind ? "beside updates" : "between them",
        offload.read_ahead ? "beside them" : "between them", readable(tier.written_bytes), readable(tier.read_bytes));
  }
  return fmt::format(
      "offload to {}: {}{} in memory at once, with {} of slots; {}, {}; {} read and as many written in a step\n", name,
      to_disk ? fmt::format("in {}, ", offload.folder.string()) : std::string{}, tiles, readable(tier.memory_bytes),
      offload.read_ahead ? "read ahead" : "read when they are needed",
      offload.write_behind ? "written behind" : "written before the next", readable(tier.read_bytes));
}

std::string tensor_lines(Plan const& plan) {
  return plan.tensor_ranks == 1
             ? std::string{}
             : fmt::format("tensor ranks: {}, each of which has {} parameters; {} rank{} with the same\n",
                           plan.tensor_ranks, plan.tensor_rank_count, plan.data_ranks, plan.data_ranks == 1 ? "" : "s");
}

std::string pipeline_lines(Plan const& plan) {
  if (plan.pipeline.empty()) {
    return {};
  }
  auto text = fmt::format("pipeline: {} stages of {} rank{}, {}\n", plan.pipeline.size(), plan.data_ranks,
                          plan.data_ranks == 1 ? "" : "s", name_of(plan.settings.pipeline.schedule));
  for (std::size_t stage = 0; stage < plan.pipeline.size(); ++stage) {
    auto const& row = plan.pipeline[stage];
    text += fmt::format(
        "  stage {}: {} unit{} from \"{}\" on, {} parameters, {} micro-step{} in flight, {} of messages, {} in all{}\n",
        stage, row.units, row.units == 1 ? "" : "s", row.first_unit, row.parameter_count, row.in_flight,
        row.in_flight == 1 ? "" : "s", readable(row.message_bytes), readable(row.bytes.total()),
        stage == plan.largest_stage ? "; what follows is its" : "");
  }
  return text;
}

std::string decisions(Plan const& plan) {
  auto const& settings = plan.settings;
  auto const place = [&](bool shards, int ranks) {
    return !shards ? "whole" : ranks < plan.data_ranks ? "group" : "shard";
  };
  auto const* const of_optimizer =
      plan.servers.count > 0 ? "on servers" : place(plan.shards_optimizer, plan.optimizer_ranks);
  auto text = fmt::format("placements: parameters {}, gradients {}, optimizer {}\n",
                          place(plan.shards_parameters, plan.parameter_ranks),
                          place(plan.shards_gradients, plan.gradient_ranks), of_optimizer);
  if (auto const& [parameters, count, bytes] = plan.persistent; parameters > 0) {
    text += fmt::format("whole on every rank: {} persistent parameter{}, {} elements, {} B with padding\n", parameters,
                        parameters == 1 ? "" : "s", count, bytes);
  }
  text += groups_lines(plan);
  text += offload_lines(plan) + parameters_disk_line(plan);
  text += dtypes_lines(settings);
  if (plan.fp32_count > 0) {
    text += fmt::format("fp32 throughout: {} elements, by ParamOptions::compute\n", plan.fp32_count);
  }
  text += fmt::format("batch: {} = {} samples x {} micro-steps x {} ranks\n", settings.batch.train,
                      settings.batch.micro, settings.batch.accumulation, plan.data_ranks);
  text += fmt::format("on another number of ranks the same global batch has {}{}\n",
                      plan.other_ranks.empty() ? "the same bits" : "other roundings: ", plan.other_ranks);
  text += slots_lines(plan);
  if (settings.batch.accumulation > 1 && settings.reduce_gradients == ReduceGradients::last_micro_step) {
    text += settings.sums_micro_steps
                ? std::string{"micro-steps add up in fp32 (data_types.grad_accum_dtype) in gradients that are whole, and "
                              "are reduced once\n"}
                : fmt::format("micro-steps add up in {} (zeroth.gradient_dtype), and are reduced once\n",
                              name_of(settings.precision.gradient));
  }
  if (settings.poison) {
    text += "poison: guards return copies, which are in scratch\n";
  }
  for (auto const& note : plan.notes) {
    text += fmt::format("note: {}\n", note);
  }
  return text;
}

}  // namespace

std::string explain_plan(Plan const& plan) {
  auto text =
      fmt::format("stage {}, {} rank{}, {} parameters ({} with padding) in {} flat units\n", plan.settings.stage,
                  plan.world, plan.world == 1 ? "" : "s", plan.parameter_count, plan.padded_count, plan.flat_units);
  text += tensor_lines(plan) + pipeline_lines(plan) + decisions(plan);
  if (auto const& servers = plan.servers; servers.count > 0) {
    text += fmt::format(
        "parameter servers: {} beside {} worker{}; each holds {}, of which the optimizer has {}, and in a step "
        "receives "
        "{} and sends {}\n",
        servers.count, plan.data_ranks, plan.data_ranks == 1 ? "" : "s", readable(servers.bytes.total()),
        readable(servers.bytes.optimizer), readable(servers.received_bytes), readable(servers.sent_bytes));
  }
  text += plan.servers.count > 0  ? "each worker holds:\n"
          : plan.pipeline.empty() ? "each rank holds:\n"
                                  : fmt::format("each rank of stage {} holds:\n", plan.largest_stage);
  text += fmt::format("  parameters {}\n", megabytes(plan.bytes.parameters));
  text += fmt::format("  gradients  {}\n", megabytes(plan.bytes.gradients));
  text += fmt::format("  optimizer  {}\n", megabytes(plan.bytes.optimizer));
  text += fmt::format("  slots      {}\n", megabytes(plan.bytes.slots));
  text += fmt::format("  scratch    {}\n", megabytes(plan.bytes.scratch));
  text += fmt::format("  total      {}\n", megabytes(plan.bytes.total()));
  if (plan.host.bytes > 0) {
    text += fmt::format("  of the host{}\n", megabytes(plan.host.bytes));
  }
  if (plan.bytes_on_disk() > 0) {
    text += fmt::format("  on a disk  {}\n", megabytes(plan.bytes_on_disk()));
  }
  text += fmt::format("  staging    {} of the host, from its first save on\n", megabytes(plan.staging_bytes));
  text += engine::activation_lines(plan);
  text += fmt::format("a checkpoint takes {} B ({}) on the disk, all its files together\n", plan.checkpoint_bytes,
                      readable(plan.checkpoint_bytes));
  return text;
}

}  // namespace zeroth
