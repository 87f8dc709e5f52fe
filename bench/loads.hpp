// SPDX-License-Identifier: Apache-2.0
/// The loads of benchmarks that train train_gpt's model; peers/loads.py has the same.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpu/choice.hpp"
#include "shape.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::bench {

struct Load {
  char const* name;
  std::int64_t micro_batch, context;
  int micro_steps;  ///< Per turn and rank.
  [[nodiscard]] int steps_of(int accumulation) const { return std::max(1, micro_steps / accumulation); }
};
inline constexpr Load loads[] = {{"L1", 4, 256, 2}, {"L2", 1, 128, 8}};

[[nodiscard]] inline gpt::Shape shape_of(Load const& load) {
  gpt::Shape shape;
  shape.layers = 6;
  shape.heads = 6;
  shape.channels = 384;
  shape.context = load.context;
  return shape;
}

[[nodiscard]] inline gpt::MathChoice math_for(Dtype dtype) {
  return gpt::cpu::choose(gpt::MathLibrary::automatic, dtype);
}

}  // namespace zeroth::bench
