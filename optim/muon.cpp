// SPDX-License-Identifier: Apache-2.0
#include "zeroth/optim/muon.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "muon_element.hpp"

namespace zeroth::optim {
namespace {

template <class G>
struct Direction {
  DirectionArgs const& args;

  ZEROTH_INLINE void operator()() const {
    auto const* const gradient = static_cast<G const*>(args.gradient);
    auto* const momentum = args.momentum;
    auto* const direction = args.direction;
    float const scale = args.scalars->gradient_scale;
    auto const factors = direction_factors_of(*args.rule);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < args.count; ++i) {
      direction[i] = from_float<bf16>(move_momentum(factors, to_float(gradient[i]) * scale, momentum[i]));
    }
  }
};

}  // namespace

void direction(DirectionArgs const& args) {
  if (!args.scalars->skip) {
    with_element(args.gradient_dtype, [&]<class G>(std::type_identity<G>) { with_best_isa(Direction<G>{args}); });
  }
}

float adjustment(Muon const& rule, std::int64_t rows, std::int64_t columns) noexcept {
  auto const [r, c] = std::pair{static_cast<double>(rows), static_cast<double>(columns)};
  return static_cast<float>(rule.adjust_rate == AdjustRate::original ? std::sqrt(std::max(1.0, r / c))
                                                                     : 0.2 * std::sqrt(std::max(r, c)));
}

}  // namespace zeroth::optim
