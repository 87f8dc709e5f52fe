// SPDX-License-Identifier: Apache-2.0
/// The part of a plan that the program carries out: what is recomputed, and what waits for backward on a disk.
#pragma once
#include <string>

#include "zeroth/config/config.hpp"
#include "zeroth/engine/plan.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::engine {

/// Throws what ActivationPolicy's constructor throws.
[[nodiscard]] PlannedActivations planned_activations(Model const& model, Config const& config, Settings const& settings,
                                                     DeviceKind device);

/// Lines of explain_plan(); empty if nothing is recomputed.
[[nodiscard]] std::string activation_lines(Plan const& plan);

}  // namespace zeroth::engine
