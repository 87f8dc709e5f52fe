// SPDX-License-Identifier: Apache-2.0
#include "device/moment_loops.hpp"

#include <algorithm>
#include <type_traits>

#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "core/widened.hpp"
#include "device/square_sums.hpp"
#include "optim/lamb_element.hpp"

namespace zeroth::device {
namespace {

/// Moves the moments of one segment, block by block.
template <class G, class M>
struct Move {
  MoveMoments const& args;
  optim::LambFactors const& factors;
  optim::Segment const& segment;

  ZEROTH_INLINE void operator()() const {
    for (std::int64_t first = segment.begin; first < segment.end; first += sum_block_count) {
      std::int64_t const count = std::min(sum_block_count, segment.end - first);
      float wide_gradient[sum_block_count], wide_master[sum_block_count];
      move(first, count, widened(static_cast<G const*>(args.update.gradient) + first, wide_gradient, count),
           widened(static_cast<M const*>(args.update.master) + first, wide_master, count));
    }
  }

 private:
  ZEROTH_INLINE void move(std::int64_t first, std::int64_t count, float const* gradient, float const* master) const {
    auto* const m = static_cast<float*>(args.update.states[0]) + first;
    auto* const v = static_cast<float*>(args.update.states[1]) + first;
    auto const f = factors;
    float direction[sum_block_count];
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      optim::move_moments(f, gradient[i], m[i], v[i]);
      direction[i] = optim::direction_of(f, master[i], m[i], v[i]);
    }
    args.weight_squares[first / sum_block_count] = sum_of_squares(master, count);
    args.direction_squares[first / sum_block_count] = sum_of_squares(direction, count);
  }
};

}  // namespace

void move_moments(MoveMoments const& args) noexcept {
  auto const& update = args.update;
  if (update.scalars->skip) {
    return;
  }
  auto const& rule = std::get<optim::Lamb>(update.update->rule);
  for (auto const& segment : update.segments) {
    auto const factors = optim::factors_of(rule, *update.scalars, segment);
    with_element(update.gradient_dtype, [&]<class G>(std::type_identity<G>) {
      if (update.master_dtype == Dtype::bf16) {
        with_best_isa(Move<G, bf16>{args, factors, segment});
      } else {
        with_best_isa(Move<G, float>{args, factors, segment});
      }
    });
  }
}

void trust_ratios(TrustRatios const& args) noexcept {
  for (std::int64_t i = 0; i < args.count && !args.scalars->skip; ++i) {
    args.ratios[i] = optim::trust_ratio(*args.rule, args.sums[i].weights.value(), args.sums[i].directions.value());
  }
}

}  // namespace zeroth::device
