// SPDX-License-Identifier: Apache-2.0
/// The phases of a pass through units.
#pragma once
#include <cstdint>

namespace zeroth {

/// Forward reads parameters; backward reads them and writes gradients. A zero-bubble schedule divides backward in two
/// (Qi et al. 2023).
enum class Phase : std::uint8_t {
  forward,
  backward,
  backward_inputs,  ///< Reads parameters, and computes the gradient with respect to a unit's input.
  backward_weights  ///< Writes parameter gradients, and reads no parameter.
};

}  // namespace zeroth
