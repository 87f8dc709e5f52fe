// SPDX-License-Identifier: Apache-2.0
/// Dynamic loss scaling for fp16, with DeepSpeed's sequence of values.
#pragma once
#include <cstdint>

#include "zeroth/core/export.hpp"

namespace zeroth::optim {

/// DeepSpeed's fp16 keys.
struct LossScaleRules {
  bool dynamic = false;                 ///< Otherwise the scale stays what it was at first.
  float initial = 1;                    ///< Also the static scale.
  float minimum = 1;                    ///< Below this it does not go.
  std::int64_t window = 1000;           ///< Steps without overflow until it doubles.
  int hysteresis = 2;                   ///< Overflows until it halves.
  bool consecutive_hysteresis = false;  ///< A step without overflow forgets those before.
};

/// Where dynamic loss scaling is.
struct LossScaleState {
  float scale = 1;                  ///< Of the next step.
  int hysteresis_left = 2;          ///< Overflows that do not halve it yet, and the one that does.
  std::int64_t iteration = 0;       ///< Steps, skipped ones included.
  std::int64_t last_overflow = -1;  ///< The iteration of it; -1 before the first.
  bool exhausted = false;           ///< An overflow came at the smallest scale: training cannot go on.
};

/// Before the first step.
[[nodiscard]] ZEROTH_EXPORT LossScaleState initial_state(LossScaleRules const& rules) noexcept;
/// What the scale is after a step that did or did not overflow. It grows to 2^126 at most, so that it stays a number.
ZEROTH_EXPORT void update(LossScaleRules const& rules, bool overflow, LossScaleState& state) noexcept;

}  // namespace zeroth::optim
