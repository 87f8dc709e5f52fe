// SPDX-License-Identifier: Apache-2.0
/// Calls of an engine that parameter servers take part in: the workers' half and the servers' half of each.
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/rank_result.hpp"
#include "shard/server_links.hpp"
#include "zeroth/engine/checkpoint.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::detail {
class EngineState;
}

namespace zeroth::engine {

// ---- on all workers. The first ones do nothing without servers; the others are for engines that have them. ----
/// Servers sum what a step will sum. Call it before that sum.
void order_norm(detail::EngineState& engine);
/// Servers add the squares of their slices of a gradient. Call it before sum_over_ranks().
void order_norm_of(detail::EngineState& engine, ParamId param);
/// Call it before read_values().
void order_read(detail::EngineState& engine, ParamId param);
/// Servers store what workers have stored.
void order_write(detail::EngineState& engine, ParamId param, std::span<float const> values);
/// Servers exchange parameters with averages, and workers receive what parameters are then. Waits.
void swap_ema_on_servers(detail::EngineState& engine);
[[nodiscard]] std::vector<RankResult> save_weights_on_servers(detail::EngineState& engine,
                                                              std::filesystem::path const& file);
[[nodiscard]] std::vector<RankResult> load_weights_on_servers(detail::EngineState& engine,
                                                              std::filesystem::path const& file);
/// Waits until the checkpoint is committed. Throws its error.
void save_on_servers(detail::EngineState& engine, std::filesystem::path const& folder, SaveOptions const& options);
void claim_on_servers(detail::EngineState& engine, std::filesystem::path const& folder);
[[nodiscard]] Restored restore_on_servers(detail::EngineState& engine, std::filesystem::path const& path,
                                          RestoreOptions const& options);
[[nodiscard]] std::optional<Restored> restore_latest_on_servers(detail::EngineState& engine,
                                                                std::filesystem::path const& folder,
                                                                RestoreOptions const& options);

// ---- on all servers ----
/// Carries out an order of one of these calls; `more` has followed it.
void answer(detail::EngineState& engine, shard::Order const& order, std::string_view more);

}  // namespace zeroth::engine
