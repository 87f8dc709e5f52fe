// SPDX-License-Identifier: Apache-2.0
/// Restores an engine's states from a checkpoint of any stage and world size.
#pragma once
#include <filesystem>
#include <optional>

#include "engine/engine_state.hpp"
#include "zeroth/engine/checkpoint.hpp"

namespace zeroth::engine {

/// Takes over all progress that is not a state.
void take_position(detail::EngineState& engine, checkpoint::Position const& position);
/// AnyEngine::claim().
void claim(detail::EngineState& engine, std::filesystem::path const& folder);
/// AnyEngine::restore().
[[nodiscard]] Restored restore(detail::EngineState& engine, std::filesystem::path const& path,
                               RestoreOptions const& options);
/// AnyEngine::restore_latest().
[[nodiscard]] std::optional<Restored> restore_latest(detail::EngineState& engine, std::filesystem::path const& folder,
                                                     RestoreOptions const& options);

}  // namespace zeroth::engine
