// SPDX-License-Identifier: Apache-2.0
/// Two parts of a job that train different models with different stage files at the same time.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

#include "engine/small_model.hpp"
#include "stage_files.hpp"
#include "support/synthetic.hpp"

namespace zeroth::testing {

struct OfPart {
  int color = 0, rank = 0, world = 0;
  std::vector<std::uint32_t> bits;  ///< Bits of losses, norms and weights.
};

/// Trains as the ranks of color 0 or 1 do on `job`.
inline std::vector<std::uint32_t> train_as(Job& job, int color, int stage) {
  if (color == 0) {
    auto const text = file(bf16_types, stage, 2, "every_micro_step", movements[0]);
    return bits_of(train_synthetic(job, Config::from_json(text), {}));
  }
  SmallModel const small;
  Engine<float> engine{job, small.model,
                       small_config(3 - stage, {.zeroth = R"(, "reduce_gradients": "last_micro_step")"})};
  std::vector<std::uint32_t> bits;
  for (auto const& report : train(engine, small, 5)) {
    bits.push_back(std::bit_cast<std::uint32_t>(report.loss));
    bits.push_back(std::bit_cast<std::uint32_t>(report.grad_norm));
  }
  for (float const value : read_weights(engine, small)) {
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

/// Puts every second rank into the second part, in reverse order.
inline OfPart train_in_parts(Job& job, int stage) {
  int const color = job.rank() % 2;
  Job part = job.split(color, color == 0 ? job.rank() : -job.rank(), color == 0 ? "even" : "odd");
  auto bits = train_as(part, color, stage);
  return {color, part.rank(), part.world(), std::move(bits)};
}

}  // namespace zeroth::testing
