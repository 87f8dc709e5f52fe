// SPDX-License-Identifier: Apache-2.0
/// What is run, as JSON: the first line of a report, and what checkpoints keep of the program.
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

/// One line.
[[nodiscard]] std::string run_record(Options const& options, zeroth::Config const& config, Shape const& shape,
                                     Batches const& batches, MathChoice const& math, int world);

/// How the run that saved a checkpoint differs from the one of the record `now`: "world: 3, was 4". Nothing of a
/// checkpoint that another program has saved.
[[nodiscard]] std::vector<std::string> changes_since(zeroth::Restored const& restored, std::string_view now);

/// The record `now` of a run that goes on: also from where, and with what changes.
[[nodiscard]] std::string resumed_record(std::string const& now, zeroth::Restored const& restored,
                                         std::vector<std::string> const& changes);

}  // namespace gpt
