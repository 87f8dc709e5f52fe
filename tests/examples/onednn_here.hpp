// SPDX-License-Identifier: Apache-2.0
/// Whether tests can use oneDNN.
#pragma once
#include <zeroth/core/dtype.hpp>
#include <zeroth/core/error.hpp>

#include "cpu/choice.hpp"

namespace gpt::testing {

[[nodiscard]] inline bool onednn_multiplies(zeroth::Dtype dtype) {
  try {
    static_cast<void>(cpu::choose(MathLibrary::onednn, dtype));
    return true;
  } catch (zeroth::ConfigError const&) {
    return false;
  }
}

}  // namespace gpt::testing
