// SPDX-License-Identifier: Apache-2.0
/// Where a pipeline cuts a model.
#pragma once
#include <cstdint>
#include <vector>

#include "zeroth/config/settings.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// The first unit of each chunk. Chunks begin with units that may begin one, and are cut so that the largest has as
/// little as can be of what PipelineSettings::partition says. Throws ConfigError where too few units may begin one,
/// ContractError for models that no pipeline takes.
[[nodiscard]] std::vector<std::uint32_t> first_units(model::Description const& whole, PipelineSettings const& settings);

/// The chunk of a unit, by what first_units() says.
[[nodiscard]] int chunk_of(std::vector<std::uint32_t> const& first, std::uint32_t unit) noexcept;

}  // namespace zeroth::engine
