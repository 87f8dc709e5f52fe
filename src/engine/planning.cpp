// SPDX-License-Identifier: Apache-2.0
#include "engine/planning.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "engine/server_plan.hpp"
#include "shard/matrix_homes.hpp"
#include "shard/parameter_norms.hpp"
#include "shard/route.hpp"
#include "stage/buckets.hpp"
#include "stage/policy.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

namespace {

/// Elements of `units` units of the largest size, limited to the maximum of a model.
std::int64_t most_in_slots(std::int64_t units, std::int64_t largest_unit) {
  return std::min(units, model::largest_count / largest_unit) * largest_unit;
}

/// Staging bytes of the communicators that reduce. They take turns, so this is a maximum.
std::int64_t staging_bytes(shard::Layout const& layout, shard::PlanRequest const& request, comm::Transport transport) {
  std::int64_t most = 0;
  for (auto const& flat : layout.flats()) {
    auto const precision = shard::precision_of(flat, request.settings);
    auto const hops = shard::routes_of(flat, request, 0).sum.hops;
    for (auto const& hop : hops) {
      if (request.settings.reduce_codec == Codec::none) {
        most = std::max(
            most, comm::staging_bytes(transport, request.places.size(hop.axes), precision.reduce, hop.from.count()));
      }
    }
    if (flat.tensor_kind == shard::TensorKind::partial) {
      most = std::max(most,
                      comm::staging_bytes(transport, request.tensor.of, precision.accumulate, hops.back().to.count()));
    }
  }
  if (shard::has_trust_ratios(request.settings)) {
    auto const ranks = std::max(request.places.world(), request.tensor.of);
    most = std::max(most, comm::staging_bytes(transport, ranks, Dtype::fp64,
                                              static_cast<std::int64_t>(layout.param_count() *
                                                                        (sizeof(device::NormSums) / sizeof(double)))));
  }
  return most;
}

/// Whether sums over ranks have the ranks' order: a codec adds up itself.
bool reduces_in_order(Settings const& settings, comm::Transport transport) noexcept {
  return comm::traits_of(transport).reduces_in_order || settings.reduce_codec != Codec::none;
}

std::int64_t largest_unit(shard::Layout const& layout) noexcept {
  std::int64_t largest = 1;
  for (auto const& flat : layout.flats()) {
    largest = std::max(largest, flat.padded_count());
  }
  return largest;
}

/// Throws if parameters are fp32 in a model of 16 bits where that is not possible.
void expect_possible_dtypes(shard::Layout const& layout, Settings const& settings, model::Description const& model,
                            Config const& config) {
  auto const found = std::ranges::find(layout.flats(), true, &shard::FlatUnit::fp32);
  if (found == layout.flats().end()) {
    return;
  }
  auto const& part = found->trainable.params.empty() ? found->frozen : found->trainable;
  auto const option = fmt::format("parameter \"{}\" has ParamOptions::compute fp32 in a model of {}",
                                  model.params[part.params.front().param].name, name_of(settings.precision.compute));
  if (auto const servers = settings.parameter_server.servers; servers > 0) {
    throw ConfigError{fmt::format(
        "{}: zeroth.parameter_server.servers is {}, and {}: servers hold parameters of one dtype; set it to "
        "0, or leave that option out",
        config.source(), servers, option)};
  }
  if (shard::has_trust_ratios(settings) && settings.offload.parameters == OffloadDevice::nvme) {
    throw ConfigError{fmt::format(
        "{}: optimizer.type is Lamb, which reads all masters before it updates the first, and {}: such a "
        "parameter is its own master; set zero_optimization.offload_param.device to \"none\", or leave that "
        "option out",
        config.source(), option)};
  }
}

}  // namespace

int data_ranks(Config const& config, int world) {
  if (config.parameter_server().servers > 0) {  // which excludes a mesh
    return worker_ranks(config, world);
  }
  auto const stages = config.pipeline().stages;
  auto const tensor = config.tensor_ranks();
  auto const of_model = std::int64_t{stages} * tensor;
  if (world % of_model != 0) {
    std::vector<int> allowed;
    for (int count = 1; count <= world; ++count) {
      if (world % count == 0) {
        allowed.push_back(count);
      }
    }
    auto const asked = tensor == 1   ? fmt::format("zeroth.mesh.pipeline is {}", stages)
                       : stages == 1 ? fmt::format("zeroth.mesh.tensor is {}", tensor)
                                     : fmt::format("zeroth.mesh.pipeline {} times zeroth.mesh.tensor {} is {}", stages,
                                                   tensor, of_model);
    throw ConfigError{fmt::format("{}: {}, which does not divide {} ranks; allowed: {}", config.source(), asked, world,
                                  fmt::join(allowed, ", "))};
  }
  return static_cast<int>(world / of_model);
}

void expect_tensor_part(Model const& model, Config const& config, Mesh const* mesh) {
  if (config.tensor_ranks() > 1 && mesh == nullptr) {
    throw ConfigError{
        fmt::format("{}: zeroth.mesh.tensor is {}, but the engine was not built on a zeroth::Mesh: build it on one, or "
                    "set zeroth.mesh.tensor to 1",
                    config.source(), config.tensor_ranks())};
  }
  auto const of_model = model.tensor_part();
  auto const part = mesh == nullptr ? TensorPart{} : mesh->tensor_part();
  ZEROTH_EXPECTS(of_model == part, fmt::format("the model was made for tensor rank {} of {}, but the engine is on "
                                               "tensor rank {} of {}: pass Mesh::tensor_part() to Model",
                                               of_model.index, of_model.of, part.index, part.of));
}

std::string refused_mesh(Settings const& settings, comm::Transport transport, DeviceKind device) {
  auto const stages = settings.pipeline.stages;
  if (stages == 1 || (comm::traits_of(transport).on_host && device == DeviceKind::cpu)) {
    return {};
  }
  return fmt::format(
      "zeroth.mesh.pipeline is {} on transport {} of device {}: pipelines are for CPUs; allowed here is 1", stages,
      comm::name_of(transport), device == DeviceKind::cpu ? "cpu" : "cuda");
}

Blueprint make_blueprint(model::Description const& model, model::Description const& whole, Config const& config,
                         int world, PlanOptions const& options) {
  if (auto const stages = config.pipeline().stages; stages > 1 && model.stage.stages == 1) {
    throw ConfigError{
        fmt::format("{}: zeroth.mesh.pipeline is {}, but the engine was not built on a zeroth::Mesh: build it on one "
                    "and run micro-steps by AnyEngine::schedule(), or set zeroth.mesh.pipeline to 1",
                    config.source(), stages)};
  }
  shard::Layout layout{model, world, {.tied = config.pipeline().tied_gradients}};
  auto const largest_here = largest_unit(layout);
  auto settings =
      config.settings(world, model.stage.stages > 1 ? largest_unit(shard::Layout{whole, world}) : largest_here);
  // At every stage: squares are summed by flat units, and stages are to have the same norm.
  if (auto const apart = shard::layout_options(settings);
      apart.persistence.param_count > 0 || apart.matrices_apart || apart.fp32_apart) {
    layout = shard::Layout{model, world, apart};
  }
  expect_possible_dtypes(layout, settings, model, config);
  auto const is_marked = [](model::ParamDescription const& param) { return param.options.matrix; };
  if (settings.matrix_update && std::ranges::none_of(whole.params, is_marked)) {  // a stage may have none
    throw ConfigError{
        fmt::format("{}: optimizer.type is \"{}\", and no parameter of the model is marked by "
                    "ParamOptions::matrix; mark the matrices that it is to update, or take another "
                    "optimizer",
                    config.source(), settings.optimizer_name())};
  }
  StagePlan pipeline;
  if (model.stage.stages > 1) {
    pipeline = stage_plan_of(model, settings, config.source());
  }
  auto limits = pipeline.sweeps.empty() ? stage::limits_of(layout, settings)
                                        : stage::limits_of(layout, settings, pipeline.sweeps);
  shard::PlanRequest request;
  request.settings = settings;
  request.placements = stage::placements_for(settings);
  request.places = stage::places_for(settings);
  request.tensor = model.tensor;
  request.sums_by_groups = stage::sums_by_groups(settings);
  request.several_reductions =
      settings.batch.accumulation > 1 && settings.reduce_gradients == ReduceGradients::every_micro_step;
  request.folds_into_sums = reduces_in_order(request.settings, options.transport) && !request.sums_by_groups &&
                            !request.settings.sums_micro_steps && settings.precision.accumulate == Dtype::fp32;
  request.parameter_slots = limits.parameter_slots;
  request.gradient_slots = limits.gradient_slots;
  auto const bucket_limit = limits.bucket_units == std::numeric_limits<int>::max()
                                ? limits.bucket_count
                                : std::min(limits.bucket_count, most_in_slots(limits.bucket_units, largest_here));
  request.largest_bucket_count = stage::Buckets::largest_count(layout, bucket_limit);
  request.comm_staging_bytes = staging_bytes(layout, request, options.transport);
  request.on_gpu = options.device != DeviceKind::cpu;
  request.offload = stage::offload_for(settings, options.device == DeviceKind::cpu);
  request.offload_parameters = stage::parameter_offload_for(settings);
  return {std::move(settings), std::move(layout), std::move(limits), std::move(request), std::move(pipeline)};
}

std::string prefetch_warning(Blueprint const& blueprint) {
  auto const& [turns, needed_count] = blueprint.limits.shortage;
  if (turns == 0 || !blueprint.settings.overlap_comm) {
    return {};
  }
  return fmt::format(
      "{} of {} turns of a training pass are not prefetched: their unit and the previous one together exceed "
      "zero_optimization.stage3_max_live_parameters, {}; {} suffices for all",
      turns, blueprint.limits.turns, blueprint.settings.max_live_count, needed_count);
}

std::string bucket_note(Blueprint const& blueprint) {
  constexpr std::int64_t buckets = 8;
  auto const& settings = blueprint.settings;
  auto const& flats = blueprint.layout.flats();
  std::int64_t count = 0;
  for (auto const& flat : flats) {
    count += flat.gradients().padded_count;
  }
  if (!settings.delayed_update || !settings.overlap_comm || blueprint.request.places.world() == 1 ||
      flats.size() == 1 || count > settings.reduce_bucket_count) {
    return {};
  }
  return fmt::format(
      "one bucket has all {} gradients, since zero_optimization.reduce_bucket_size is {}: with zeroth.delayed_update, "
      "reductions and updates then cannot overlap backward; {} makes about {} buckets",
      count, settings.reduce_bucket_count, std::max<std::int64_t>(1, count / buckets), buckets);
}

std::string stage_note(Settings const& settings) {
  if (settings.batch.accumulation == 1 || settings.reduce_gradients_given) {
    return {};
  }
  bool const every = settings.reduce_gradients == ReduceGradients::every_micro_step;
  return fmt::format(
      "zeroth.reduce_gradients is not set: by default stages 0 and 1 reduce gradients once per update, stages 2 and 3 "
      "after each of its {} micro-steps, and round differently; \"{}\" is the default of stage {}",
      settings.batch.accumulation, every ? "every_micro_step" : "last_micro_step", settings.stage);
}

std::string ranks_note(Blueprint const& blueprint) {
  auto const& [settings, layout, limits, request, pipeline] = blueprint;
  auto const sums = settings.precision.accumulate;
  if (settings.reduce_gradients == ReduceGradients::last_micro_step) {
    return R"(a rank adds up its own micro-steps first (zeroth.reduce_gradients "last_micro_step"))";
  }
  if (request.sums_by_groups) {
    return "groups of ranks sum first (zeroth.two_level_sums)";
  }
  if (sums != Dtype::fp32) {
    return fmt::format("sums are rounded to {} (data_types.grad_accum_dtype)", name_of(sums));
  }
  return request.folds_into_sums ? "" : "NCCL adds ranks up in an order of its own";
}

std::string two_level_note(Settings const& settings) {
  auto const reduce = settings.precision.reduce;
  if (!stage::sums_by_groups(settings) || reduce == Dtype::fp32) {
    return {};
  }
  return fmt::format(
      "zeroth.two_level_sums rounds sums to {} twice, which loses about half as much again as one sum does; {}",
      name_of(reduce),
      settings.precision.master == Dtype::bf16
          ? "communication_data_type \"fp32\" is for a file without bf16.bf16_master_weights_and_grads"
          : "communication_data_type \"fp32\" rounds nothing on the way");
}

std::string refused_same_bits(Settings const& settings, comm::Transport transport) {
  return settings.same_bits_at_any_ranks && !reduces_in_order(settings, transport)
             ? "zeroth.same_bits_at_any_ranks is true: NCCL adds ranks up in an order of its own; set it to false, or "
               "zeroth.reduce_codec to \"exact\", or train over local, mpi or tcp"
             : "";
}

std::string refused_optimizer(Settings const& settings, DeviceKind device) {
  auto const* const muon =
      shard::has_directions(settings) ? &std::get<optim::Muon>(settings.matrix_update->rule) : nullptr;
  bool const own = muon != nullptr && muon->multiply;
  if (own && muon->method == optim::NewtonSchulzMethod::gram) {
    return "optimizer.params.ns_method is \"gram\", which multiplies fp16, but the function of "
           "Config::with(optim::Multiply) multiplies bf16; set it to \"standard\", or remove the function";
  }
  return device == DeviceKind::cpu || !own ? std::string{}
                                           : "Config::with(optim::Multiply) is not supported on GPUs, where cuBLASLt "
                                             "computes Muon's products; remove it";
}

std::string refused_offload(OffloadSettings const& offload, DeviceKind device) {
  if (device == DeviceKind::cpu) {
    return offload.update_threads == 1
               ? std::string{}
               : fmt::format(
                     "zeroth.offload_update_threads is {}: on a CPU each rank updates by its own thread; set it to 1",
                     offload.update_threads);
  }
  constexpr auto* end = "(zeroth plan --device cuda says whether that fits), or train on CPUs";
  if (offload.optimizer == OffloadDevice::nvme) {
    return fmt::format(
        "zero_optimization.offload_optimizer.device is \"nvme\", which is not supported with GPUs; set it to \"cpu\" "
        "or \"none\" {}",
        end);
  }
  if (offload.parameters != OffloadDevice::none) {
    return fmt::format(
        R"(zero_optimization.offload_param.device is "{}", which is not supported with GPUs; set it to "none" {})",
        offload.parameters == OffloadDevice::nvme ? "nvme" : "cpu", end);
  }
  return {};
}

namespace {

constexpr std::int64_t much = 4;  // memory of at least one fourth of the saving is reported

double in_mebibytes(std::int64_t bytes) noexcept { return static_cast<double>(bytes) / 0x1p20; }

/// Elements of a tile or buffer, chosen so that `buffers` of them are small compared with `elements`.
std::int64_t better_size(std::int64_t elements, int buffers) noexcept {
  auto const count = std::bit_floor(static_cast<std::uint64_t>(elements / (2 * much * buffers)));
  return std::max(shard::tile_alignment_count, static_cast<std::int64_t>(count));
}

}  // namespace

std::string parameters_note(Settings const& settings, shard::MemoryPlan const& plan) {
  auto const& disk = plan.parameters_disk;
  if (disk.bytes == 0) {
    return {};
  }
  auto const element_bytes = bytes_of(settings.precision.compute);  // the dtype of most parameters
  auto const better = better_size(disk.bytes / element_bytes, disk.buffers());
  if (disk.memory_bytes() * much <= disk.bytes || better * element_bytes >= disk.tile_bytes) {
    return {};
  }
  return fmt::format(
      "{:.2f} MiB of parameters are on the disk, but their buffers take {:.2f} MiB of memory; a "
      "zero_optimization.offload_param.buffer_size of {} makes them smaller",
      in_mebibytes(disk.bytes), in_mebibytes(disk.memory_bytes()), better);
}

std::string offload_note(Settings const& settings, shard::MemoryPlan const& plan) {
  auto const& disk = plan.disk;
  if (disk.bytes == 0) {
    return {};
  }
  auto const* const tier = disk.tier == shard::Tier::disk ? "the disk" : "the host";
  std::int64_t elements = 0;
  std::int64_t largest = 0;
  for (auto const& tile : disk.tiles) {
    elements += tile.elements.count();
    largest = std::max(largest, tile.elements.count());
  }
  auto const better = better_size(elements, disk.tiles_in_memory);
  if (disk.memory_bytes() * much > disk.bytes && better < largest) {
    return fmt::format(
        "{} holds {:.2f} MiB of states, but tiles in flight take {:.2f} MiB of memory; a "
        "zero_optimization.sub_group_size of {} makes them smaller",
        tier, in_mebibytes(disk.bytes), in_mebibytes(disk.memory_bytes()), better);
  }
  auto const gathered = plan.gradient_slots - plan.parameter_slots;  // the one ends where the other begins
  if (gathered * 2 > disk.bytes && settings.prefetch_count > 0) {
    return fmt::format(
        "{} holds {:.2f} MiB of states, but gathered units take {:.2f} MiB of memory; a lower "
        "zero_optimization.stage3_prefetch_bucket_size gathers fewer of them ahead",
        tier, in_mebibytes(disk.bytes), in_mebibytes(gathered));
  }
  return {};
}

std::string crossing_warning(Settings const& settings, std::span<std::uint64_t const> machines) {
  auto const& groups = settings.groups;
  if (groups.count == 1 || groups.size == 1) {
    return {};
  }
  auto const size = static_cast<std::size_t>(groups.size);
  std::size_t most = 1;
  std::size_t worst = 0;
  for (std::size_t first = 0; first < machines.size(); first += size) {
    auto const of_group = machines.subspan(first, size);
    if (auto const count = std::set(of_group.begin(), of_group.end()).size(); count > most) {
      most = count;
      worst = first;
    }
  }
  if (most == 1) {
    return {};
  }
  return fmt::format(
      "the group of ranks {} to {} spans {} machines, so its collectives use the network; start the ranks of each "
      "machine consecutively, and let {} divide their number",
      worst, worst + size - 1, most, groups.size);
}

std::string sum_warning(Settings const& settings) {
  constexpr std::int64_t few = 8;  // sums of so few lose less than the roundings of the gradients themselves
  auto const& precision = settings.precision;
  bool const last = settings.reduce_gradients == ReduceGradients::last_micro_step;
  auto const added_up_in = last && !settings.sums_micro_steps ? precision.gradient : precision.accumulate;
  if (settings.batch.accumulation <= few || added_up_in == Dtype::fp32) {
    return {};
  }
  return fmt::format(
      "{} micro-steps are added up in {}, whose roundings grow with their number; {}", settings.batch.accumulation,
      name_of(added_up_in),
      precision.master == Dtype::bf16
          ? "data_types.grad_accum_dtype \"fp32\" is for a file without bf16.bf16_master_weights_and_grads"
          : "data_types.grad_accum_dtype \"fp32\" adds them up in fp32");
}

}  // namespace zeroth::engine
