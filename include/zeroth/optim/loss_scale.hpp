// SPDX-License-Identifier: Apache-2.0
/// Dynamic loss scaling for fp16, with DeepSpeed's sequence of values.
#pragma once
#include <cstdint>

#include "zeroth/core/export.hpp"

namespace zeroth::optim {

/// DeepSpeed's fp16 keys.
struct LossScaleRules {
  bool dynamic = false;                 ///< If false, the scale stays at its initial value.
  float initial = 1;                    ///< Also the static scale.
  float minimum = 1;                    ///< The scale does not go below this.
  std::int64_t window = 1000;           ///< Steps without overflow until it doubles.
  int hysteresis = 2;                   ///< Overflows until it halves.
  bool consecutive_hysteresis = false;  ///< A step without overflow resets the count of overflows.
};

/// The state of dynamic loss scaling.
struct LossScaleState {
  float scale = 1;                  ///< Scale of the next step.
  int hysteresis_left = 2;          ///< Overflows left until the scale halves, including the one that halves it.
  std::int64_t iteration = 0;       ///< Steps, including skipped ones.
  std::int64_t last_overflow = -1;  ///< Iteration of the last overflow; -1 if there was none.
  bool exhausted = false;           ///< An overflow occurred at the smallest scale: training cannot continue.
};

/// The state before the first step.
[[nodiscard]] ZEROTH_EXPORT LossScaleState initial_state(LossScaleRules const& rules) noexcept;
/// Updates the scale after a step. It grows to 2^126 at most, so that it stays finite.
ZEROTH_EXPORT void update(LossScaleRules const& rules, bool overflow, LossScaleState& state) noexcept;

}  // namespace zeroth::optim
