/// What one AdamW call works on, and the same update one element after another.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../../optim/adamw_element.hpp"
#include "../../optim/stochastic_rounding.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "zeroth/optim/adamw.hpp"

namespace zeroth::testing {

/// All that one call reads and writes. Masters are M, moments S; a parameter P is written where masters are fp32.
template <class G, class P, class M = float, class S = float>
struct AdamwCase {
  std::vector<M> master;
  std::vector<S> m, v;
  std::vector<G> gradient;
  std::vector<P> parameter;

  AdamwCase(std::int64_t count, Numbers numbers)
      : master{rounded<M>(random_floats(count, numbers, 1))},
        m{rounded<S>(random_floats(count, numbers, 2))},
        v{rounded<S>(magnitudes(random_floats(count, numbers, 3)))},
        gradient{rounded<G>(random_floats(count, numbers, 4))},
        parameter{rounded<P>(random_floats(count, numbers, 5))} {}

  /// Keeps no copy of the segments.
  [[nodiscard]] optim::AdamwArgs args(optim::StepScalars const& scalars,
                                      std::vector<optim::AdamwSegment> const& segments) {
    optim::AdamwArgs args;
    args.master = master.data();
    args.master_dtype = dtype_of<M>;
    args.m = m.data();
    args.v = v.data();
    args.moments_dtype = dtype_of<S>;
    args.gradient = gradient.data();
    args.gradient_dtype = dtype_of<G>;
    args.parameter = std::is_same_v<M, float> ? parameter.data() : nullptr;
    args.parameter_dtype = dtype_of<P>;
    args.count = std::ssize(master);
    args.segments = segments;
    args.scalars = &scalars;
    args.rules.weight_decay = 0.1F;
    args.rules.rounding_seed = 0x123456789abcdef;
    return args;
  }

  /// First element that differs, in any stream; -1 if none does.
  [[nodiscard]] std::int64_t difference(AdamwCase const& other) const {
    return std::max({first_difference(master, other.master), first_difference(m, other.m), first_difference(v, other.v),
                     first_difference(parameter, other.parameter)});
  }

 private:
  static std::vector<float> magnitudes(std::vector<float> values) {
    for (float& value : values) {
      value = std::fabs(value);
    }
    return values;
  }
};

[[nodiscard]] inline optim::StepScalars scalars_of_update(std::int64_t update) {
  optim::StepRules rules;
  optim::StepScalars scalars;
  scalars.applied = update - 1;
  rules.schedule.base = 0.01F;
  optim::advance(rules, {1, 0, 3, 0}, scalars);
  return scalars;
}

template <class S>
[[nodiscard]] S store_rounded(float value, optim::RoundingNoise const& noise, optim::Rounded what,
                              std::uint64_t element) {
  if constexpr (std::is_same_v<S, float>) {
    return value;
  } else {
    auto const words = optim::noise_words(noise, what, element / optim::noise_lanes);
    return optim::round_stochastically(value, optim::noise_at(words, static_cast<int>(element % optim::noise_lanes)));
  }
}

/// As the headers of the arithmetic say.
template <class G, class P, class M, class S>
void update_one_by_one(AdamwCase<G, P, M, S>& state, optim::AdamwArgs const& args) {
  auto const noise = optim::noise_of(args.rules, *args.scalars);
  for (auto const& segment : args.segments) {
    auto const factors = optim::factors_of(args.rules, *args.scalars, segment);
    for (auto k = segment.begin; k < segment.end; ++k) {
      auto const i = static_cast<std::size_t>(k);
      auto const element = static_cast<std::uint64_t>(segment.element + k - segment.begin);
      float master = to_float(state.master[i]), m = to_float(state.m[i]), v = to_float(state.v[i]);
      optim::update_element(factors, to_float(state.gradient[i]), master, m, v);
      state.master[i] = store_rounded<M>(master, noise, optim::Rounded::master, element);
      state.m[i] = store_rounded<S>(m, noise, optim::Rounded::m, element);
      state.v[i] = store_rounded<S>(v, noise, optim::Rounded::v, element);
      if (args.parameter != nullptr) {
        state.parameter[i] = from_float<P>(master);
      }
    }
  }
}

/// adamw() on every instruction set, and one element after another: from the same start, with what `args_of` makes of
/// it.
template <class Case, class F>
void check_all_isas(std::int64_t count, Numbers numbers, F const& args_of) {
  Case expected{count, numbers};
  update_one_by_one(expected, args_of(expected));
  for (Isa const isa : all_isas()) {
    WithIsa const with{isa};
    Case got{count, numbers};
    optim::adamw(args_of(got));
    INFO(name_of(isa) << ", " << count << " elements");
    CHECK(got.difference(expected) == -1);
  }
}

}  // namespace zeroth::testing
