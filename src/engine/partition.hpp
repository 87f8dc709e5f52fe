// SPDX-License-Identifier: Apache-2.0
/// Cuts a model into the chunks of a pipeline.
#pragma once
#include <cstdint>
#include <vector>

#include "zeroth/config/settings.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// The first unit of each chunk, which must be one that may begin a chunk. Follows PipelineSettings::first_units if
/// set. Otherwise minimises the largest chunk by the measure of PipelineSettings::partition. Throws ConfigError if too
/// few units may begin a chunk, or the settings name one that may not; ContractError for models that cannot be cut.
[[nodiscard]] std::vector<std::uint32_t> first_units(model::Description const& whole, PipelineSettings const& settings);

/// The chunk of a unit; `first` is the result of first_units().
[[nodiscard]] int chunk_of(std::vector<std::uint32_t> const& first, std::uint32_t unit) noexcept;

}  // namespace zeroth::engine
