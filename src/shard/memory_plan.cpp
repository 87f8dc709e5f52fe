// SPDX-License-Identifier: Apache-2.0
#include "shard/memory_plan.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "core/block_file.hpp"
#include "device/kernels.hpp"
#include "shard/encoded_momenta.hpp"
#include "shard/matrix_homes.hpp"
#include "shard/matrix_memory.hpp"
#include "shard/parameter_norms.hpp"
#include "shard/parameters.hpp"
#include "shard/reducer.hpp"
#include "shard/step_memory.hpp"
#include "shard/tied_sums.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::shard {
namespace {

// All counts of flat units are multiples of alignment_count elements, so only odd pieces of scratch need rounding.
constexpr std::int64_t alignment_bytes = 256;

/// Hands out consecutive pieces of one category.
class Cursor {
 public:
  explicit Cursor(std::int64_t& end) noexcept : end_{&end} {}
  [[nodiscard]] std::int64_t take(std::int64_t bytes) noexcept {
    auto const start = *end_;
    *end_ += (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    return start;
  }

 private:
  std::int64_t* end_;
};

/// Elements of a state that every rank holds, and how many of them exist only for alignment.
struct Held {
  std::int64_t count, padding_count;
  friend Held operator+(Held const& a, Held const& b) noexcept {
    return {a.count + b.count, a.padding_count + b.padding_count};
  }
};

Held held_by_each(Part const& part, Placement placement, Places const& places) noexcept {
  if (placement.is_absent) {
    return {0, 0};
  }
  auto const count = held(part, placement, places, 0).count();
  auto const ranks = places.size(placement.cut);
  return {count, count - (part.used_count + ranks - 1) / ranks};
}

using Dtypes = std::array<std::optional<Dtype>, most_updated>;

/// Dtypes of the states that an update of `flat` changes, numbered as for most_updated; none for an absent state.
Dtypes dtypes_of_updated(FlatUnit const& flat, PlanRequest const& request) {
  Dtypes dtypes{};
  auto const precision = precision_of(flat, request.settings);
  if (precision.has_master()) {
    dtypes[0] = precision.master;
  }
  auto const states = static_cast<std::size_t>(optim::state_count(update_of(flat, request.settings)));
  for (std::size_t k = 0; k + 1 < dtypes.size() && k < states; ++k) {
    dtypes[k + 1] = precision.states;
  }
  return dtypes;
}

Tiles tiles_of(Layout const& layout, PlanRequest const& request) {
  ById<FlatId, char> has_states;
  for (auto const& flat : layout.flats()) {
    has_states.push_back(dtypes_of_updated(flat, request) == Dtypes{} ? 0 : 1);
  }
  return cut_tiles(layout, has_states, request.placements.optimizer, request.places, request.offload);
}

/// Bytes of an element of the widest of these dtypes, over all flat units.
std::int64_t widest(Layout const& layout, Settings const& settings, Dtype PrecisionSettings::*dtype) noexcept {
  std::int64_t bytes = 0;
  for (auto const& flat : layout.flats()) {
    bytes = std::max(bytes, bytes_of(precision_of(flat, settings).*dtype));
  }
  return bytes;
}

/// The states stay where they are. Gradients move to the host, and parameters too if they are the masters; new
/// parameters move back.
void plan_host_tiles(Layout const& layout, Settings const& settings, std::int64_t largest_count, DiskPlan& disk) {
  disk.in_tile[1] = whole_blocks(largest_count * widest(layout, settings, &PrecisionSettings::accumulate));
  disk.tile_bytes =
      disk.in_tile[1] + whole_blocks(largest_count * widest(layout, settings, &PrecisionSettings::compute));
  disk.host_tiles = disk.bytes;
  disk.bytes += disk.tiles_in_memory * disk.tile_bytes;
  for (auto const& tile : disk.tiles) {
    auto const precision = precision_of(layout.flats()[tile.flat], settings);
    auto const of_parameter = bytes_of(precision.compute);
    disk.read_bytes += tile.elements.count() * of_parameter;
    disk.written_bytes +=
        tile.elements.count() * (bytes_of(precision.accumulate) + (precision.has_master() ? 0 : of_parameter));
  }
}

/// Assigns offloaded states their positions in the storage (each state of a flat unit separately, as for arrays in
/// memory), and plans the buffers for tiles.
void plan_disk(Layout const& layout, Tiles tiles, PlanRequest const& request, MemoryPlan& plan) {
  auto& disk = plan.disk;
  disk.tier = request.offload.tier;
  if (tiles.on_disk.empty()) {
    return;
  }
  Dtypes of_any{};
  for (auto const flat : plan.flats.ids()) {
    auto& at = plan.flats[flat];
    auto const dtypes = dtypes_of_updated(layout.flats()[flat], request);
    auto const held_count =
        held(layout.flats()[flat].trainable, request.placements.optimizer, request.places, 0).count();
    for (std::size_t k = 0; k < dtypes.size(); ++k) {
      if (dtypes[k]) {
        of_any[k] = of_any[k] && bytes_of(*of_any[k]) > bytes_of(*dtypes[k]) ? of_any[k] : dtypes[k];
        at.on_disk[k] = disk.bytes;
        disk.bytes += whole_blocks((held_count - at.in_memory_count) * bytes_of(*dtypes[k]));
      }
    }
  }
  disk.tiles = std::move(tiles.on_disk);
  disk.tiles_in_memory =
      static_cast<int>(std::min(std::ssize(disk.tiles), std::ptrdiff_t{request.offload.tiles_in_memory}));
  if (request.offload.host_threads > 0) {
    plan_host_tiles(layout, request.settings, tiles.largest_count, disk);
    return;
  }
  for (std::size_t k = 0; k < of_any.size(); ++k) {
    disk.in_tile[k] = disk.tile_bytes;
    disk.tile_bytes += of_any[k] ? whole_blocks(tiles.largest_count * bytes_of(*of_any[k])) : 0;
  }
  for (auto const& tile : disk.tiles) {
    for (auto const& dtype : dtypes_of_updated(layout.flats()[tile.flat], request)) {
      disk.read_bytes += dtype ? whole_blocks(tile.elements.count() * bytes_of(*dtype)) : 0;
    }
  }
  disk.written_bytes = disk.read_bytes;
  disk.window_bytes = disk.tier == Tier::disk ? std::min(disk.bytes, std::int64_t{1} << 20U) : 0;
  plan.bytes.slots += disk.memory_bytes();
}

/// Copies of a tile in memory: several if a rank receives what its replicas updated.
int copies_of_tiles(PlanRequest const& request) noexcept {
  auto const& placements = request.placements;
  return placements.parameters == Placement::group && placements.optimizer == Placement::shard
             ? request.places.replicas()
             : 1;
}

/// Assigns offloaded parameters their positions on the disk, and plans the buffers of gathers and updates.
void plan_parameters_disk(Layout const& layout, Tiles const& states, ById<FlatId, char> const& on_disk,
                          PlanRequest const& request, MemoryPlan& plan) {
  auto const element_bytes = [&](FlatId flat) {
    return bytes_of(precision_of(layout.flats()[flat], request.settings).compute);
  };
  auto& disk = plan.parameters_disk;
  std::int64_t largest = 0;  // part of a flat unit
  std::int64_t widest_element = 0;
  for (auto const flat : plan.flats.ids()) {
    if (on_disk[flat] == 0) {
      continue;
    }
    auto const& unit = layout.flats()[flat];
    auto const count = [&](Part const& part) {
      return held(part, request.placements.parameters, request.places, 0).count();
    };
    plan.flats[flat].parameters_on_disk = disk.bytes;
    disk.bytes += whole_blocks((frozen_on_disk(unit, request) + count(unit.frozen)) * element_bytes(flat));
    widest_element = std::max(widest_element, element_bytes(flat));
    largest = std::max({largest, slices_on_disk(unit, request).count, count(unit.frozen)});
  }
  if (disk.bytes == 0) {
    return;
  }
  auto const& asked = request.offload_parameters;
  disk.tiles = cut_parameters(layout, states, on_disk, asked.disk.tile_count);
  disk.copies = copies_of_tiles(request);
  disk.tile_bytes = whole_blocks(std::min(largest, tile_count(asked.disk.tile_count)) * widest_element);
  std::int64_t updated = 0;
  bool reads = false;  // all tiles, if some are masters
  for (auto const& tile : disk.tiles) {
    updated += whole_blocks(tile.elements.count() * element_bytes(tile.flat));
    reads |= !precision_of(layout.flats()[tile.flat], request.settings).has_master();
  }
  disk.read_bytes = reads ? updated : 0;
  disk.written_bytes = disk.copies * updated;
  disk.tiles_in_memory = static_cast<int>(std::min(std::ssize(disk.tiles), std::ptrdiff_t{asked.disk.tiles_in_memory}));
  disk.gather_buffers = static_cast<int>(
      std::min(std::int64_t{asked.gather_buffers}, (disk.bytes + disk.tile_bytes - 1) / disk.tile_bytes));
  disk.window_bytes = std::min(disk.bytes, std::int64_t{1} << 20U);
  plan.bytes.slots += disk.memory_bytes();
}

/// Takes a piece of `category` for a state of a flat unit.
std::int64_t take(std::int64_t& category, std::int64_t& padding, Held const& state, Dtype dtype) noexcept {
  padding += state.padding_count * bytes_of(dtype);
  return Cursor{category}.take(state.count * bytes_of(dtype));
}

void plan_parameters(Layout const& layout, ById<FlatId, char> const& on_disk, PlanRequest const& request,
                     MemoryPlan& plan) {
  for (auto const flat : plan.flats.ids()) {
    auto const& unit = layout.flats()[flat];
    auto const placement = placement_of_parameters(unit, request);
    if (on_disk[flat] == 0) {
      plan.flats[flat].parameters = take(plan.bytes.parameters, plan.padding.parameters,
                                         held_by_each(unit.trainable, placement, request.places) +
                                             held_by_each(unit.frozen, placement, request.places),
                                         precision_of(unit, request.settings).compute);
    }
  }
}

/// Plans what backward writes, if it is whole, sums of it, if they are separate, and those of a delayed update.
void plan_gradients(Layout const& layout, PlanRequest const& request, MemoryPlan& plan) {
  auto const& [placements, places] = std::tie(request.placements, request.places);
  auto& bytes = plan.bytes.gradients;
  auto& padding = plan.padding.gradients;
  for (auto const flat : plan.flats.ids()) {
    auto& at = plan.flats[flat];
    auto const& part = layout.flats()[flat].gradients();
    auto const precision = precision_of(layout.flats()[flat], request.settings);
    auto const whole = held_by_each(part, Placement::whole, places);
    if (placements.gradients == Placement::whole) {
      at.gradient = take(bytes, padding, whole, precision.gradient);
    }
    if (request.settings.sums_micro_steps) {
      at.sums = take(bytes, padding, whole, Dtype::fp32);
    } else if (!sums_in_place(request)) {
      at.reduced = take(bytes, padding, held_by_each(part, placements.optimizer, places), precision.accumulate);
    }
    if (request.settings.delayed_update) {
      at.delayed = take(bytes, padding, held_by_each(part, placements.optimizer, places), precision.accumulate);
    }
  }
}

/// Plans the masters and the rule's states that are in memory, and errors of gradients.
void plan_optimizer(Layout const& layout, PlanRequest const& request, MemoryPlan& plan) {
  auto& bytes = plan.bytes.optimizer;
  auto& padding = plan.padding.optimizer;
  for (auto const flat : plan.flats.ids()) {
    auto& at = plan.flats[flat];
    auto const updated = held_by_each(layout.flats()[flat].trainable, request.placements.optimizer, request.places);
    Held const in_memory{at.in_memory_count,
                         std::max(std::int64_t{0}, updated.padding_count - (updated.count - at.in_memory_count))};
    auto const precision = precision_of(layout.flats()[flat], request.settings);
    if (precision.has_master()) {
      at.master = take(bytes, padding, in_memory, precision.master);
    }
    auto const& update = update_of(layout.flats()[flat], request.settings);
    for (std::size_t k = 0; k < static_cast<std::size_t>(optim::state_count(update)); ++k) {
      at.states[k] = take(bytes, padding, in_memory, precision.states);
    }
    if (keeps_errors(layout.flats()[flat], request.settings)) {
      auto const whole = held_by_each(layout.flats()[flat].gradients(), Placement::whole, request.places);
      at.errors = take(bytes, padding, whole, Dtype::fp32);
      if (encodes_momenta(request.settings)) {
        auto const slice = held_by_each(layout.flats()[flat].gradients(), Placement::shard, request.places);
        at.slice_errors = take(bytes, padding, slice, Dtype::fp32);
      }
    }
  }
}

void plan_slots(PlanRequest const& request, MemoryPlan& plan) {
  Cursor slots{plan.bytes.slots};
  plan.parameter_slots = slots.take(request.parameter_slots.total_bytes(bytes_of(request.settings.precision.compute)));
  plan.gradient_slots = slots.take(request.gradient_slots.total_bytes(bytes_of(request.settings.precision.gradient)));
}

/// If first moments are encoded, each rank also sums squares of its own whole gradients. Squares of parameters that all
/// tensor ranks have whole count once, on the first of these ranks. They come after all others. With parameter servers,
/// servers have the slices; or if workers may be stale, each worker sums squares of its own whole gradients.
void plan_block_sums(Layout const& layout, PlanRequest const& request, MemoryPlan& plan) {
  bool const is_worker = request.placements.optimizer.is_absent;
  bool const is_stale = request.settings.parameter_server.staleness > 0;
  if (is_worker != is_stale && (is_worker || request.workers > 0)) {
    return;
  }
  for (bool const of_cut : {true, false}) {
    for (auto const flat : plan.flats.ids()) {
      auto const& unit = layout.flats()[flat];
      if (unit.speaks && unit.apart.params.empty() && (unit.tensor_kind == TensorKind::cut) == of_cut) {
        plan.flats[flat].block_sums = plan.block_sum_count;
        auto const& part = unit.trainable;
        plan.block_sum_count +=
            device::sum_blocks(encodes_momenta(request.settings) || is_stale ? part.padded_count : part.shard_count);
      }
    }
    if (of_cut || request.tensor.index == 0) {
      plan.counted_block_sums = plan.block_sum_count;
    }
  }
}

void plan_scratch(Layout const& layout, PlanRequest const& request, MemoryPlan& plan) {
  Cursor scratch{plan.bytes.scratch};
  std::int64_t largest_shard = 0;
  for (auto const& unit : layout.flats()) {
    largest_shard = std::max({largest_shard, unit.trainable.shard_count, unit.frozen.shard_count});
  }
  plan_block_sums(layout, request, plan);
  plan.block_sums = scratch.take(plan.block_sum_count * bytes_of(Dtype::fp32));
  plan.scalars = scratch.take(static_cast<std::int64_t>(sizeof(StepMemory)));
  if (auto const bytes = Reducer::scratch_bytes(request); bytes > 0) {
    plan.conversion = scratch.take(bytes);
  }
  auto const encoded = Parameters::encoded_bytes(layout, request);
  if (auto const bytes = std::max(Carrier::scratch_bytes(layout, request), encoded.reduce); bytes > 0) {
    plan.encoded_reduce = scratch.take(bytes);
  }
  if (encoded.gather > 0) {
    plan.encoded_gather = scratch.take(encoded.gather);
  }
  if (auto const bytes = TiedSums::scratch_bytes(layout, request); bytes > 0) {
    plan.tied = scratch.take(bytes);
  }
  if (has_directions(request.settings)) {
    plan.directions = scratch.take(MatrixMemory::bytes(matrix_homes(layout, request)));
  }
  if (has_trust_ratios(request.settings)) {
    plan.parameter_norms = scratch.take(ParameterNorms::scratch_bytes(layout, request));
  }
  if (encodes_momenta(request.settings)) {
    plan.encoded_momenta = scratch.take(EncodedMomenta::scratch_bytes(layout));
  }
  if (request.workers > 0) {
    std::int64_t all_shards = 0;
    for (auto const& unit : layout.flats()) {
      all_shards += unit.gradients().shard_count;
    }
    auto const count = request.settings.parameter_server.staleness > 0 ? request.workers * all_shards
                                                                       : (request.workers + 1) * largest_shard;
    plan.pushed = scratch.take(count * bytes_of(request.settings.precision.reduce));
  }
  plan.comm_staging_bytes = request.comm_staging_bytes;
  plan.comm_staging = scratch.take(request.comm_staging_bytes);
  plan.transfer_bytes = std::min(largest_shard * bytes_of(Dtype::fp32), std::int64_t{1} << 20U);
  plan.transfer = scratch.take(plan.transfer_bytes);
  if (request.settings.poison) {
    for (auto const flat : plan.flats.ids()) {
      auto const& unit = layout.flats()[flat];
      auto& at = plan.flats[flat];
      auto const precision = precision_of(unit, request.settings);
      at.lent_parameters = scratch.take(unit.padded_count() * bytes_of(precision.compute));
      at.lent_gradient = scratch.take(unit.gradients().padded_count * bytes_of(precision.gradient));
    }
  }
}

}  // namespace

StoredSlices slices_on_disk(FlatUnit const& flat, PlanRequest const& request) noexcept {
  auto const element_bytes = bytes_of(precision_of(flat, request.settings).compute);
  auto const count = held(flat.trainable, request.placements.optimizer, request.places, 0).count();
  return {copies_of_tiles(request), count, whole_blocks(count * element_bytes) / element_bytes};
}

std::int64_t frozen_on_disk(FlatUnit const& flat, PlanRequest const& request) noexcept {
  auto const stored = slices_on_disk(flat, request);
  return stored.slices * stored.stride;
}

std::int64_t bytes_read_to_gather(FlatUnit const& flat, PlanRequest const& request) noexcept {
  auto const element_bytes = bytes_of(precision_of(flat, request.settings).compute);
  auto const frozen = held(flat.frozen, request.placements.parameters, request.places, 0).count();
  return frozen_on_disk(flat, request) * element_bytes + whole_blocks(frozen * element_bytes);
}

bool sums_in_place(PlanRequest const& request) noexcept {
  auto const& precision = request.settings.precision;
  return request.placements.gradients == Placement::whole && !request.several_reductions &&
         precision.reduce == precision.gradient && precision.accumulate == precision.gradient;
}

bool folds(PlanRequest const& request) noexcept {
  return request.folds_into_sums && !request.settings.sums_micro_steps && !sums_in_place(request);
}

Range held(Part const& part, Placement placement, Places const& places, int place) noexcept {
  if (placement.is_absent) {
    return {};
  }
  if (placement == Placement::whole || placement == Placement::shard) {  // called for every address: no divisions
    return placement == Placement::whole ? Range{0, part.padded_count} : part.slice(place);
  }
  auto const count = part.padded_count / places.size(placement.cut);
  auto const piece = places.index(placement.cut, place);
  return {piece * count, (piece + 1) * count};
}

MemoryPlan plan_memory(Layout const& layout, PlanRequest const& request) {
  MemoryPlan plan;
  auto tiles = tiles_of(layout, request);
  auto const on_disk = parameters_on_disk(layout, request);
  for (auto const count : tiles.in_memory) {
    plan.flats.push_back({});
    plan.flats.back().in_memory_count = count;
  }
  plan_parameters(layout, on_disk, request, plan);
  plan_gradients(layout, request, plan);
  plan_optimizer(layout, request, plan);
  plan_slots(request, plan);
  plan_scratch(layout, request, plan);
  plan_parameters_disk(layout, tiles, on_disk, request, plan);
  plan_disk(layout, std::move(tiles), request, plan);
  return plan;
}

}  // namespace zeroth::shard
