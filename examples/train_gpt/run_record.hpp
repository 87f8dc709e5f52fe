// SPDX-License-Identifier: Apache-2.0
/// The configuration of a run as JSON: the first line of a report, and the program's state in checkpoints.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <zeroth/config/config.hpp>
#include <zeroth/engine/checkpoint.hpp>

#include "batches.hpp"
#include "math_library.hpp"
#include "options.hpp"
#include "shape.hpp"

namespace gpt {

/// One JSON line.
[[nodiscard]] std::string run_record(Options const& options, zeroth::Config const& config, Shape const& shape,
                                     Batches const& batches, MathChoice const& math, int world);

/// The differences between the run that saved a checkpoint and the record `now`: "world: 3, was 4". Empty for a
/// checkpoint of another program.
[[nodiscard]] std::vector<std::string> changes_since(zeroth::Restored const& restored, std::string_view now);

/// The record `now` of a resumed run, with the checkpoint that it resumes from and the changes.
[[nodiscard]] std::string resumed_record(std::string const& now, zeroth::Restored const& restored,
                                         std::vector<std::string> const& changes);

}  // namespace gpt
