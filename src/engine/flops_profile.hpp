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
  double forward = 0;   ///< 2 per element of a matrix and row that is multiplied with it.
  double backward = 0;  ///< As many for each of the two gradients (a frozen matrix has one), plus recomputation.
};
[[nodiscard]] StepFlops flops_of(model::UnitDescription const& unit, model::Description const& model,
                                 Settings const& settings);

/// `times` and `step_ms` are those of one step.
[[nodiscard]] std::string flops_profile(model::Description const& model, Settings const& settings,
                                        SpanSums const& times, std::int64_t step, double step_ms);

}  // namespace zeroth::engine
