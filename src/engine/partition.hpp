// SPDX-License-Identifier: Apache-2.0
/// Where a pipeline cuts a model.
#pragma once
#include <cstdint>
#include <vector>

#include "zeroth/config/settings.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// The first unit of each chunk, which is one that may begin a chunk: what PipelineSettings::first_units says, else
/// those with which the largest chunk has as little as can be of what PipelineSettings::partition says. Throws
/// ConfigError where too few units may begin one, or the settings name another; ContractError for models that no
/// pipeline takes.
[[nodiscard]] std::vector<std::uint32_t> first_units(model::Description const& whole, PipelineSettings const& settings);

/// The chunk of a unit, by what first_units() says.
[[nodiscard]] int chunk_of(std::vector<std::uint32_t> const& first, std::uint32_t unit) noexcept;

}  // namespace zeroth::engine
