// SPDX-License-Identifier: Apache-2.0
/// Models of all shapes that a layout must divide.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "zeroth/model/description.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::testing {

inline constexpr std::array worlds{1, 2, 3, 5, 7, 64, 1024};

/// A model that `seed` determines: empty units, units that are smaller than any world, frozen and tied parameters,
/// matrices, odd sizes.
inline Model random_model(unsigned seed) {
  std::mt19937 random{seed};
  auto const below = [&](unsigned bound) { return static_cast<std::uint32_t>(random() % bound); };
  static constexpr std::array<std::int64_t, 10> counts{1, 2, 127, 128, 129, 256, 1000, 1024, 4097, 20'000};
  Model model{seed};
  std::vector<Unit> units;
  std::vector<AnyParam> params;
  std::vector<std::uint32_t> owners;
  auto const unit_count = below(9);
  for (std::uint32_t u = 0; u < unit_count; ++u) {
    units.push_back(model.unit("unit" + std::to_string(u), {.uses_per_micro_step = static_cast<int>(1 + below(3))}));
  }
  for (std::uint32_t u = 0; u < unit_count; ++u) {
    for (auto left = below(5); left > 0; --left) {
      ParamOptions options;
      options.trainable = below(4) != 0;
      options.learning_rate_factor = static_cast<float>(1 + below(3));
      options.weight_decay_factor = static_cast<float>(below(2));
      auto const name = "unit" + std::to_string(u) + ".p" + std::to_string(left);
      auto const count = counts[below(counts.size())];
      options.matrix = options.trainable && (count + left) % 2 == 0;
      options.compute = (count + left) % 3 == 0 ? std::optional{Dtype::fp32} : std::nullopt;
      std::array const shape{count, std::int64_t{1}};
      params.push_back(
          model.param(units[u], name, std::span{shape}.first(options.matrix ? 2 : 1), Constant{1}, options));
      owners.push_back(u);
    }
  }
  for (std::size_t p = 0; p < params.size(); ++p) {
    if (below(4) != 0) {
      continue;
    }
    for (std::uint32_t u = 0; u < unit_count; ++u) {
      if (u != owners[p] && below(2) == 0) {
        model.tie(units[u], params[p]);
      }
    }
  }
  return model;
}

}  // namespace zeroth::testing
