// SPDX-License-Identifier: Apache-2.0
/// What a stage file must not combine: put on top of a drawn job it is refused by its key, before anything runs.
#pragma once
#include <filesystem>
#include <string>

#include "jobs/drawn.hpp"

namespace zeroth::testing::jobs {

/// Empty if one of them, drawn from those that contradict this job, is refused as documented.
[[nodiscard]] std::string refusal_problem(Drawn const& drawn, std::filesystem::path const& folder);

}  // namespace zeroth::testing::jobs
