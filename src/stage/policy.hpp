// SPDX-License-Identifier: Apache-2.0
/// A ZeRO stage as a value (Rajbhandari et al. 2020, section 5): the rest of the library knows neither stage numbers
/// nor keys about groups.
#pragma once
#include "shard/placement.hpp"
#include "shard/places.hpp"
#include "shard/tiles.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::stage {

/// The placements of stage 0 to 3. Throws ContractError for another number.
[[nodiscard]] shard::Placements placements_of(int stage);

/// Like placements_of, but gradients stay whole if micro-steps are summed before reduction, and with the group sharding
/// that the settings ask for.
[[nodiscard]] shard::Placements placements_for(Settings const& settings);

/// The places of all ranks, with their groups and replicas.
[[nodiscard]] shard::Places places_for(Settings const& settings);

/// Options of storage in `folder`, without size.
[[nodiscard]] device::StorageOptions storage_in(std::filesystem::path const& folder, Settings const& settings);

/// Which optimizer states are offloaded, and how updates access them. If the device `has_host_memory`, "cpu" offloads
/// nothing, because states are in host memory anyway.
[[nodiscard]] shard::Offload offload_for(Settings const& settings, bool has_host_memory);
[[nodiscard]] shard::ParameterOffload parameter_offload_for(Settings const& settings);

/// Whether gradients are summed within groups first, then over groups.
[[nodiscard]] bool sums_by_groups(Settings const& settings) noexcept;

}  // namespace zeroth::stage
