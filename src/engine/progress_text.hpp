// SPDX-License-Identifier: Apache-2.0
/// What a progress line says.
#pragma once
#include <cstdint>
#include <string>

#include "zeroth/engine/progress_line.hpp"

namespace zeroth::engine {

/// Behind a step.
struct ProgressState {
  std::int64_t bytes = 0;
  double elapsed_s = 0;
  double step_s = 0;  ///< That a step takes now.
};

/// Without an end. Up to `columns` letters, or as many as there are where that is 0: what matters least is left out
/// first.
[[nodiscard]] std::string progress_text(ProgressOptions const& options, StepReport const& report,
                                        ProgressState const& state, int columns);

}  // namespace zeroth::engine
