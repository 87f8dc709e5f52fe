// SPDX-License-Identifier: Apache-2.0
/// The text of a progress line.
#pragma once
#include <cstdint>
#include <string>

#include "zeroth/engine/progress_line.hpp"

namespace zeroth::engine {

/// State after a step.
struct ProgressState {
  std::int64_t bytes = 0;
  double elapsed_s = 0;
  double step_s = 0;  ///< Current seconds per step.
};

/// The line, without a line end. At most `columns` characters (0: no limit); the least important parts are left out
/// first.
[[nodiscard]] std::string progress_text(ProgressOptions const& options, StepReport const& report,
                                        ProgressState const& state, int columns);

}  // namespace zeroth::engine
