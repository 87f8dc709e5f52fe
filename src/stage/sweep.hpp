// SPDX-License-Identifier: Apache-2.0
/// The work of an action on units; orders of turns consist of such sweeps.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "zeroth/core/phase.hpp"

namespace zeroth::stage {

using zeroth::Phase;

[[nodiscard]] constexpr std::string_view name_of(Phase phase) noexcept {
  constexpr std::array<std::string_view, 4> names{"forward", "backward", "backward_inputs", "backward_weights"};
  return names[static_cast<std::size_t>(phase)];
}

[[nodiscard]] constexpr bool reads_parameters(Phase phase) noexcept { return phase != Phase::backward_weights; }
[[nodiscard]] constexpr bool writes_gradients(Phase phase) noexcept {
  return phase == Phase::backward || phase == Phase::backward_weights;
}

/// One turn of each unit from `begin` to `end` - 1: in that order for forward, in reverse otherwise.
struct Sweep {
  Phase phase = Phase::forward;
  std::uint32_t begin = 0, end = 0;
  /// Number of turns that need parameters.
  [[nodiscard]] std::int64_t turns() const noexcept {
    return reads_parameters(phase) ? std::int64_t{end} - std::int64_t{begin} : 0;
  }
};

/// The sweeps of a micro-step through `units` units.
[[nodiscard]] inline std::vector<Sweep> sweeps_of_micro_step(std::uint32_t units) {
  return {{Phase::forward, 0, units}, {Phase::backward, 0, units}};
}

}  // namespace zeroth::stage
