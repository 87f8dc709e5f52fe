// SPDX-License-Identifier: Apache-2.0
/// The first line of a report: what was run.
#pragma once
#include <string>

#include <zeroth/config/config.hpp>

#include "batches.hpp"
#include "math_library.hpp"
#include "options.hpp"
#include "shape.hpp"

namespace gpt {

[[nodiscard]] std::string run_record(Options const& options, zeroth::Config const& config, Shape const& shape,
                                     Batches const& batches, MathChoice const& math, int world);

}  // namespace gpt
