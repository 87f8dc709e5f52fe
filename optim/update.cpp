// SPDX-License-Identifier: Apache-2.0
#include "zeroth/optim/update.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "core/widened.hpp"
#include "ema_element.hpp"
#include "rule_elements.hpp"
#include "stochastic_rounding.hpp"

namespace zeroth::optim {
namespace {

/// Elements that are converted, updated and rounded in turn. They stay in the first-level cache, so memory is still
/// read and written once.
constexpr std::int64_t block = 512;

/// Elements in fp32.
struct Wide {
  float const* gradient;
  float* master;
  std::array<float*, most_states> states;
  std::int64_t count;
};

/// A rule with the factors that the elements of a segment share.
struct Bound {
  void (*update)(void const* factors, Wide const& elements);
  void const* factors;
  int state_count;
};

template <class Factors, std::size_t... state>
ZEROTH_INLINE void update_elements(Factors const& factors, Wide const& elements,
                                   std::index_sequence<state...> /*states*/) {
  Factors const f = factors;
  auto const [gradient, master, states, count] = elements;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    update_element(f, gradient[i], master[i], std::get<state>(states)[i]...);
  }
}

template <class R>
struct Loop {
  using Factors = decltype(factors_of(std::declval<R const&>(), StepScalars{}, Segment{}));
  Factors const& factors;
  Wide const& elements;
  ZEROTH_INLINE void operator()() const {
    update_elements(factors, elements, std::make_index_sequence<R::state_count>{});
  }
  static void run(void const* factors, Wide const& elements) {
    with_best_isa(Loop{*static_cast<Factors const*>(factors), elements});
  }
};

struct OwnFactors {
  CustomRule const& rule;
  StepScalars const& scalars;
  Segment const& segment;

  static void run(void const* factors, Wide const& elements) {
    auto const& [rule, scalars, segment] = *static_cast<OwnFactors const*>(factors);
    float gradient[block];
    for (std::int64_t first = 0; first < elements.count; first += block) {
      auto const count = static_cast<std::size_t>(std::min(block, elements.count - first));
      for (std::size_t i = 0; i < count; ++i) {
        gradient[i] = elements.gradient[first + static_cast<std::int64_t>(i)] * scalars.gradient_scale;
      }
      CustomRuleElements given{.master = {elements.master + first, count},
                               .gradient = {gradient, count},
                               .states = {},
                               .learning_rate = scalars.learning_rate * segment.learning_rate_factor,
                               .weight_decay_factor = segment.weight_decay_factor,
                               .applied = scalars.applied};
      for (std::size_t k = 0; k < rule.kept_states.size(); ++k) {
        given.states[k] = {elements.states[k] + first, count};
      }
      rule.update(given);
    }
  }
};

/// Updates one segment. P is the parameter's type, or void if the master is the parameter.
///
/// 16-bit types are converted block by block in separate loops: one loop over several element sizes would mix vectors
/// of different lengths and run at half the speed.
template <class G, class P>
struct WideUpdate {
  UpdateArgs const& args;
  Bound const& rule;
  Segment const& segment;

  ZEROTH_INLINE void operator()() const {
    auto const* const gradient = static_cast<G const*>(args.gradient);
    auto const [begin, end] = std::pair{segment.begin, segment.end};
    if constexpr (std::is_same_v<G, float> && !Element<P>) {
      if (args.average == nullptr) {
        return update(begin, gradient + begin, end - begin);
      }
    }
    for (std::int64_t first = begin; first < end; first += block) {
      std::int64_t const count = std::min(block, end - first);
      float wide[block];
      update(first, widened(gradient + first, wide, count), count);
      auto const* const master = static_cast<float const*>(args.master);
      if (args.average != nullptr) {
        move_average(master + first, args.average + first, count);
      }
      if constexpr (Element<P>) {
        auto* const parameter = static_cast<P*>(args.parameter);
#pragma GCC ivdep
        for (std::int64_t i = first; i < first + count; ++i) {
          parameter[i] = from_float<P>(master[i]);
        }
      }
    }
  }

  ZEROTH_INLINE void move_average(float const* master, float* average, std::int64_t count) const {
    float const rate = average_rate(args.update->ema_decay);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      average[i] = averaged(average[i], master[i], rate);
    }
  }

  ZEROTH_INLINE void update(std::int64_t first, float const* gradient, std::int64_t count) const {
    Wide wide{gradient, static_cast<float*>(args.master) + first, {}, count};
    for (std::size_t k = 0; k < static_cast<std::size_t>(rule.state_count); ++k) {
      wide.states[k] = static_cast<float*>(args.states[k]) + first;
    }
    rule.update(rule.factors, wide);
  }
};

/// Updates one segment with bf16 masters. S is the type of the states.
template <class G, class S>
struct RoundedUpdate {
  UpdateArgs const& args;
  Bound const& rule;
  Segment const& segment;

  ZEROTH_INLINE void operator()() const {
    auto const noise = noise_of(args.update->rounding_seed, *args.scalars);
    auto const* const gradient = static_cast<G const*>(args.gradient);
    auto* const master = static_cast<bf16*>(args.master);
    float wide_gradient[block], wide_master[block], wide_states[most_states][block];
    for (std::int64_t first = segment.begin; first < segment.end; first += block) {
      std::int64_t const count = std::min(block, segment.end - first);
      Wide wide{
          widened(gradient + first, wide_gradient, count), widened(master + first, wide_master, count), {}, count};
      for (std::size_t k = 0; k < static_cast<std::size_t>(rule.state_count); ++k) {
        wide.states[k] = widened(static_cast<S*>(args.states[k]) + first, wide_states[k], count);
      }
      rule.update(rule.factors, wide);
      round(noise, Rounded::master, first, wide.master, master + first, count);
      for (std::size_t k = 0; k < static_cast<std::size_t>(rule.state_count); ++k) {
        round(noise, rounded_state(static_cast<int>(k)), first, wide.states[k], static_cast<S*>(args.states[k]) + first,
              count);
      }
    }
  }

  ZEROTH_INLINE void round(RoundingNoise const& noise, Rounded what, std::int64_t first, float const* wide,
                           bf16* values, std::int64_t count) const {
    constexpr std::int64_t most_groups = (block / noise_lanes + philox_batch) / philox_batch * philox_batch;
    static_assert(std::endian::native == std::endian::little, "halves of words become elements in order");
    std::uint32_t words[4 * most_groups];
    std::uint16_t bits[noise_lanes * most_groups];
    auto const element = static_cast<std::uint64_t>(segment.element + (first - segment.begin));
    auto const lane = static_cast<std::int64_t>(element % noise_lanes);
    std::int64_t const groups = (lane + count + noise_lanes - 1) / noise_lanes;
    fill_philox(noise_sequence(noise, what), element / noise_lanes, groups, words);
    std::memcpy(bits, words, static_cast<std::size_t>(groups) * 4 * sizeof(std::uint32_t));
    std::uint32_t largest = 0;  // nearly always small, which halves the work
    for (std::int64_t i = 0; i < count; ++i) {
      largest = std::max(largest, magnitude_bits(wide[i]));
    }
    if (largest < noise_ends) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) {
        values[i] = cut_off(wide[i], bits[lane + i]);
      }
      return;
    }
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      values[i] = round_stochastically(wide[i], bits[lane + i]);
    }
  }
  /// fp32 is updated in place and not rounded.
  ZEROTH_INLINE void round(RoundingNoise const& /*noise*/, Rounded /*what*/, std::int64_t /*first*/,
                           float const* /*wide*/, float* /*values*/, std::int64_t /*count*/) const {}
};

void update_segment(UpdateArgs const& args, Bound const& rule, Segment const& segment) {
  with_element(args.gradient_dtype, [&]<class G>(std::type_identity<G>) {
    if (args.master_dtype == Dtype::bf16) {
      return args.states_dtype == Dtype::bf16 ? with_best_isa(RoundedUpdate<G, bf16>{args, rule, segment})
                                              : with_best_isa(RoundedUpdate<G, float>{args, rule, segment});
    }
    if (args.parameter == nullptr) {
      return with_best_isa(WideUpdate<G, void>{args, rule, segment});
    }
    with_element(args.parameter_dtype, [&]<class P>(std::type_identity<P>) {
      with_best_isa(WideUpdate<G, P>{args, rule, segment});
    });
  });
}

}  // namespace

void update(UpdateArgs const& args) {
  if (args.scalars->skip) {
    return;
  }
  std::visit(
      [&]<class R>(R const& rule) {
        for (auto const& segment : args.segments) {
          if constexpr (std::is_same_v<R, CustomRule>) {
            OwnFactors const factors{rule, *args.scalars, segment};
            update_segment(args, {&OwnFactors::run, &factors, static_cast<int>(rule.kept_states.size())}, segment);
          } else {
            auto const factors = factors_of(rule, *args.scalars, segment);
            update_segment(args, {&Loop<R>::run, &factors, R::state_count}, segment);
          }
        }
      },
      args.update->rule);
}

std::string_view name_of(Rule const& rule) noexcept {
  return std::visit([](auto const& each) { return std::string_view{each.name()}; }, rule);
}

std::vector<State> states_of(Rule const& rule) {
  return std::visit([](auto const& each) { return each.states(); }, rule);
}

std::vector<State> states_of(Update const& update) {
  auto states = states_of(update.rule);
  if (update.ema_decay >= 0) {
    states.push_back({ema_name});
  }
  return states;
}

int state_count(Update const& update) noexcept { return state_count(update.rule) + (update.ema_decay >= 0 ? 1 : 0); }

int state_count(Rule const& rule) noexcept {
  return std::visit(
      []<class R>(R const& each) {
        if constexpr (std::is_same_v<R, CustomRule>) {
          return static_cast<int>(each.kept_states.size());
        } else {
          return R::state_count;
        }
      },
      rule);
}

std::array<double, 2> betas_of(Rule const& rule) noexcept {
  return std::visit(
      [](auto const& each) {
        if constexpr (requires { each.adam; }) {
          return betas_of(each.adam);
        } else if constexpr (requires { each.bias_correction; }) {
          return each.bias_correction ? std::array{each.beta1, each.beta2} : std::array{0.0, 0.0};
        } else {
          return std::array{0.0, 0.0};
        }
      },
      rule);
}

}  // namespace zeroth::optim
