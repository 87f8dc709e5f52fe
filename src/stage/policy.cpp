// SPDX-License-Identifier: Apache-2.0
#include "stage/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "zeroth/core/error.hpp"

namespace zeroth::stage {

using shard::Placement;
using shard::Placements;

Placements placements_of(int stage) {
  static constexpr std::array stages{
      Placements{Placement::whole, Placement::whole, Placement::whole},
      Placements{Placement::whole, Placement::whole, Placement::shard},
      Placements{Placement::whole, Placement::shard, Placement::shard},
      Placements{Placement::shard, Placement::shard, Placement::shard},
  };
  ZEROTH_EXPECTS(stage >= 0 && stage < static_cast<int>(stages.size()),
                 fmt::format("there is no stage {}: stages are 0, 1, 2 and 3", stage));
  return stages[static_cast<std::size_t>(stage)];
}

Placements placements_for(Settings const& settings) {
  auto placements = placements_of(settings.stage);
  bool const backward_adds_up = settings.reduce_gradients == ReduceGradients::last_micro_step &&
                                settings.batch.accumulation > 1 && !settings.sums_micro_steps;
  if (backward_adds_up) {
    placements.gradients = Placement::whole;
  }
  auto const& groups = settings.groups;
  auto const cut_for_groups = [&](Placement& placement, bool asked) {
    if (asked && placement == Placement::shard && groups.count > 1) {
      placement = groups.size == 1 ? Placement::whole : Placement::group;
    }
  };
  cut_for_groups(placements.parameters, groups.cut_parameters);
  cut_for_groups(placements.gradients, groups.cut_states);
  cut_for_groups(placements.optimizer, groups.cut_states);
  return placements;
}

shard::Places places_for(Settings const& settings) {
  auto const& [size, count, cut_parameters, cut_states, two_level_sums] = settings.groups;
  return {size * count, size};
}

device::StorageOptions storage_in(std::filesystem::path const& folder, Settings const& settings) {
  return {.folder = folder,
          .piece_bytes = settings.offload.piece_bytes,
          .requests = settings.offload.requests,
          .timeout = settings.timeout * 3 / 4};  // ranks that wait for this one get its error before they time out
}

shard::Offload offload_for(Settings const& settings, bool has_host_memory) {
  auto const& asked = settings.offload;
  if (asked.optimizer == OffloadDevice::none || (asked.optimizer == OffloadDevice::cpu && has_host_memory)) {
    return {};
  }
  // While one tile is updated, one is read and one is written. DeepSpeed counts the buffers of single states.
  auto const of_rules = std::max(optim::state_count(settings.update),
                                 settings.matrix_update ? optim::state_count(*settings.matrix_update) : 0);
  auto const states = (settings.precision.has_master() ? 1 : 0) + of_rules;
  int const needed = 1 + (asked.read_ahead ? 1 : 0) + (asked.write_behind ? 1 : 0);
  return {.tier = asked.optimizer == OffloadDevice::nvme ? shard::Tier::disk : shard::Tier::host,
          .ratio = asked.ratio,
          .tile_count = asked.tile_count,
          .tiles_in_memory = std::max(needed, asked.buffer_count / std::max(1, states)),
          .reads_ahead = asked.read_ahead,
          .writes_behind = asked.write_behind,
          .host_threads = asked.update == OffloadUpdate::host ? asked.update_threads : 0,
          .storage = storage_in(asked.folder, settings)};
}

shard::ParameterOffload parameter_offload_for(Settings const& settings) {
  auto const& asked = settings.offload;
  if (asked.parameters != OffloadDevice::nvme) {
    return {};
  }
  // While one tile is updated, one is written, and if updates read parameters, one is read.
  bool const overlaps = settings.overlap_comm;
  int const of_updates = !overlaps ? 1 : settings.precision.has_master() ? 2 : 3;
  return {.disk = {.ratio = 1,
                   .tile_count = asked.parameter_buffer_count,
                   .tiles_in_memory = of_updates,
                   .reads_ahead = overlaps,
                   .writes_behind = overlaps,
                   .storage = storage_in(asked.parameter_folder, settings)},
          .in_memory_count = asked.parameters_in_memory_count,
          .gather_buffers = std::max(overlaps ? 2 : 1, asked.parameter_buffers - of_updates)};
}

bool sums_by_groups(Settings const& settings) noexcept {
  auto const& groups = settings.groups;
  return groups.two_level_sums && groups.size > 1 && groups.count > 1;
}

}  // namespace zeroth::stage
