// SPDX-License-Identifier: Apache-2.0
/// A ZeRO stage as a value (Rajbhandari et al. 2020, section 5): nothing else in the library knows a stage number, or a
/// key that is about groups.
#pragma once
#include "shard/placement.hpp"
#include "shard/places.hpp"
#include "shard/tiles.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::stage {

/// Placements of stage 0 to 3. Throws ContractError for another number.
[[nodiscard]] shard::Placements placements_of(int stage);

/// As placements_of, with gradients whole where micro-steps are summed up before they are reduced: they must be held.
/// And with what groups have each for themselves.
[[nodiscard]] shard::Placements placements_for(Settings const& settings);

/// Who stands where, and with whom.
[[nodiscard]] shard::Places places_for(Settings const& settings);

/// Which of the optimizer's states are offloaded, and how updates get at them. Where the device `has_host_memory` they
/// are in the host's memory anyway.
[[nodiscard]] shard::Offload offload_for(Settings const& settings, bool has_host_memory);
[[nodiscard]] shard::ParameterOffload parameter_offload_for(Settings const& settings);

/// Are gradients summed within groups, then over groups?
[[nodiscard]] bool sums_by_groups(Settings const& settings) noexcept;

}  // namespace zeroth::stage
