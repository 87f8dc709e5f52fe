// SPDX-License-Identifier: Apache-2.0
/// The stage files of a drawn job.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "jobs/drawn.hpp"

namespace zeroth::testing::jobs {

/// Ranks of the reference, by the option of that name: they divide the micro-steps of the global batch.
[[nodiscard]] int other_ranks(Choice const& choice);
/// The value of zeroth.reduce_gradients that a file without the key gets.
[[nodiscard]] std::string_view default_reduction(Choice const& choice);
/// The value of zeroth.tied_gradients that a file has, or gets without the key.
[[nodiscard]] std::string_view ties_of(Choice const& choice);
/// The stage file of `choice`, which trains `units`. Files that its job writes are in `folder`.
[[nodiscard]] nlohmann::json stage_file(Choice const& choice, std::vector<DrawnUnit> const& units,
                                        std::filesystem::path const& folder);
/// Stage 0 in memory, with all that decides bits.
[[nodiscard]] nlohmann::json reference_file(Choice const& choice, std::filesystem::path const& folder);

}  // namespace zeroth::testing::jobs
