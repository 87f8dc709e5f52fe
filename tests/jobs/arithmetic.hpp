// SPDX-License-Identifier: Apache-2.0
/// The values that a drawn job computes from parameters and writes to gradients.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "jobs/built_model.hpp"
#include "zeroth/engine/guards.hpp"
#include "zeroth/engine/reduced_gradient.hpp"

namespace zeroth::testing::jobs {

/// All values that a unit uses, in one number.
[[nodiscard]] double read(AnyParams const& p, BuiltUnit const& unit);
/// The elements of a parameter.
[[nodiscard]] std::vector<float> elements(AnyView const& view);
/// The values of all parameters that a unit uses. Throws std::runtime_error if padding is not 0.
[[nodiscard]] std::vector<float> values_of(AnyParams const& p, BuiltUnit const& unit);

/// The share of a unit that a mask keeps over all samples of the micro-batch, scaled to -1 to 1.
template <class Pass>
[[nodiscard]] double mask(Pass const& pass, std::size_t unit, std::int64_t micro_batch) {
  constexpr float rate = 0.25F;
  std::array<std::byte, 9> kept;
  double sum = 0;
  for (std::int64_t row = 0; row < micro_batch; ++row) {
    pass.random(row, static_cast<std::uint32_t>(unit)).keep(5 * row, rate, kept);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      sum += (kept[i] == std::byte{0} ? -1.0 : 1.0) * static_cast<double>(1 + i % 3);
    }
  }
  return sum / static_cast<double>(2 * micro_batch * std::ssize(kept));
}

struct Sample {
  double state;
  std::int64_t number;
  float seed;
  float bad;  ///< A value that replaces one element of each gradient; 0: none is replaced.
  bool spares_padding = false;
};

/// Adds to the gradient of the parameter whose elements are `values`, and unless padding is spared, to its padding too.
void contribute(AnyGradient const& grad, BuiltParam const& param, std::vector<float> const& values,
                Sample const& sample);
void contribute(AnyBackward const& p, BuiltParam const& param, Sample const& sample);

/// Clips a gradient of the mean loss by value.
void clip(ReducedGradient const& gradient);

}  // namespace zeroth::testing::jobs
