// SPDX-License-Identifier: Apache-2.0
/// The stage files of a drawn job.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "jobs/drawn.hpp"

namespace zeroth::testing::jobs {

/// Of zeroth.reduce_gradients, where the file does not say it.
[[nodiscard]] std::string_view default_reduction(Choice const& choice);
/// What `choice` says; files that it writes are in `folder`.
[[nodiscard]] nlohmann::json stage_file(Choice const& choice, std::filesystem::path const& folder);
/// Stage 0 in memory, with all that decides bits.
[[nodiscard]] nlohmann::json reference_file(Choice const& choice, std::filesystem::path const& folder);

}  // namespace zeroth::testing::jobs
