// SPDX-License-Identifier: Apache-2.0
/// Combinations that a stage file must not have. Added to a drawn job, each is rejected with its key before anything
/// runs.
#pragma once
#include <filesystem>
#include <string>

#include "jobs/drawn.hpp"

namespace zeroth::testing::jobs {

/// Draws a combination that contradicts this job. Returns an empty string if it is rejected as documented.
[[nodiscard]] std::string refusal_problem(Drawn const& drawn, std::filesystem::path const& folder);

}  // namespace zeroth::testing::jobs
