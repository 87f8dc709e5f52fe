// SPDX-License-Identifier: Apache-2.0
/// What a drawn job computes from parameters, and writes to gradients.
#pragma once
#include <cstdint>
#include <vector>

#include "jobs/built_model.hpp"
#include "zeroth/engine/guards.hpp"

namespace zeroth::testing::jobs {

/// All that a unit uses, in one number.
[[nodiscard]] double read(AnyParams const& p, BuiltUnit const& unit);
/// The elements of a parameter.
[[nodiscard]] std::vector<float> elements(AnyView const& view);
/// Those of all that a unit uses.
[[nodiscard]] std::vector<float> values_of(AnyParams const& p, BuiltUnit const& unit);

struct Sample {
  double state;
  std::int64_t number;
  float seed;
  float bad;  ///< What one element of each gradient is instead; 0: all are good.
};

/// Adds to the gradient of a parameter that is `values`.
void contribute(AnyGradient const& grad, std::vector<float> const& values, Sample const& sample);
void contribute(AnyBackward const& p, AnyParam const& param, Sample const& sample);

}  // namespace zeroth::testing::jobs
