// SPDX-License-Identifier: Apache-2.0
/// The table of flops_profiler.
#pragma once
#include <cstdint>
#include <string>

#include "engine/span_sums.hpp"
#include "zeroth/config/settings.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// Floating-point operations of one rank in a step.
struct StepFlops {
  double forward = 0;   ///< 2 for each element of a matrix and row that it is multiplied with.
  double backward = 0;  ///< As many for each of the two gradients, of which a frozen matrix has one; and recomputation.
};
[[nodiscard]] StepFlops flops_of(model::UnitDescription const& unit, model::Description const& model,
                                 Settings const& settings);

/// `times` are of one step, `step_ms` too.
[[nodiscard]] std::string flops_profile(model::Description const& model, Settings const& settings,
                                        SpanSums const& times, std::int64_t step, double step_ms);

}  // namespace zeroth::engine
