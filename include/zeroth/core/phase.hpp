// SPDX-License-Identifier: Apache-2.0
/// What a pass through units does with them.
#pragma once
#include <cstdint>

namespace zeroth {

/// Forward reads parameters; backward reads them, and writes gradients. A zero-bubble schedule divides backward in two
/// (Qi et al. 2023).
enum class Phase : std::uint8_t {
  forward,
  backward,
  backward_inputs,  ///< Reads parameters, and makes the gradient by the input of a unit.
  backward_weights  ///< Writes gradients, and reads no parameter.
};

}  // namespace zeroth
