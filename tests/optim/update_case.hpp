// SPDX-License-Identifier: Apache-2.0
/// The data of one update, and the same update element by element.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../optim/rule_elements.hpp"
#include "../../optim/stochastic_rounding.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::testing {

/// All data that one call reads and writes. Masters are of type M, states of S; a parameter of type P is written if
/// masters are fp32.
template <class G, class P, class M = float, class S = float>
struct UpdateCase {
  optim::Update update{optim::Adam{.weight_decay = 0.1F}, 0x123456789abcdef};
  std::vector<M> master;
  std::array<std::vector<S>, optim::most_states> states;  // the second is not negative
  std::vector<G> gradient;
  std::vector<P> parameter;

  UpdateCase(std::int64_t count, Numbers numbers)
      : master{rounded<M>(random_floats(count, numbers, 1))},
        states{rounded<S>(random_floats(count, numbers, 2)), rounded<S>(magnitudes(random_floats(count, numbers, 3)))},
        gradient{rounded<G>(random_floats(count, numbers, 4))},
        parameter{rounded<P>(random_floats(count, numbers, 5))} {}

  [[nodiscard]] optim::Adam& adam() { return std::get<optim::Adam>(update.rule); }

  /// Keeps no copy of the segments.
  [[nodiscard]] optim::UpdateArgs args(optim::StepScalars const& scalars, std::vector<optim::Segment> const& segments) {
    optim::UpdateArgs args;
    args.master = master.data();
    args.master_dtype = dtype_of<M>;
    for (std::size_t k = 0; k < states.size(); ++k) {
      args.states[k] = states[k].data();
    }
    args.states_dtype = dtype_of<S>;
    args.gradient = gradient.data();
    args.gradient_dtype = dtype_of<G>;
    args.parameter = std::is_same_v<M, float> ? parameter.data() : nullptr;
    args.parameter_dtype = dtype_of<P>;
    args.count = std::ssize(master);
    args.segments = segments;
    args.update = &update;
    args.scalars = &scalars;
    return args;
  }

  /// First element that differs, in any stream; -1 if none does.
  [[nodiscard]] std::int64_t difference(UpdateCase const& other) const {
    return std::max({first_difference(master, other.master), first_difference(states[0], other.states[0]),
                     first_difference(states[1], other.states[1]), first_difference(parameter, other.parameter)});
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

/// Updates by the functions in the headers of the arithmetic.
template <class R, std::size_t... state, class G, class P, class M, class S>
void update_one_by_one(R const& rule, std::index_sequence<state...> /*states*/, UpdateCase<G, P, M, S>& on,
                       optim::UpdateArgs const& args) {
  auto const noise = optim::noise_of(on.update.rounding_seed, *args.scalars);
  for (auto const& segment : args.segments) {
    auto const factors = optim::factors_of(rule, *args.scalars, segment);
    for (auto k = segment.begin; k < segment.end; ++k) {
      auto const i = static_cast<std::size_t>(k);
      auto const element = static_cast<std::uint64_t>(segment.element + k - segment.begin);
      float master = to_float(on.master[i]);
      std::array<float, sizeof...(state) + 1> states{to_float(on.states[state][i])..., 0.0F};
      optim::update_element(factors, to_float(on.gradient[i]), master, states[state]...);
      on.master[i] = store_rounded<M>(master, noise, optim::Rounded::master, element);
      ((on.states[state][i] =
            store_rounded<S>(states[state], noise, optim::rounded_state(static_cast<int>(state)), element)),
       ...);
      if (args.parameter != nullptr) {
        on.parameter[i] = from_float<P>(master);
      }
    }
  }
}

/// Updates by a rule of the library.
template <class Case>
void update_one_by_one(Case& on, optim::UpdateArgs const& args) {
  std::visit(
      [&]<class R>(R const& rule) {
        if constexpr (!std::is_same_v<R, optim::CustomRule>) {
          update_one_by_one(rule, std::make_index_sequence<static_cast<std::size_t>(R::state_count)>{}, on, args);
        }
      },
      on.update.rule);
}

/// update() on every instruction set, and one element after another, from the same start. `args_of` makes the arguments
/// from a case.
template <class Case, class F>
void check_all_isas(std::int64_t count, Numbers numbers, F const& args_of) {
  Case expected{count, numbers};
  update_one_by_one(expected, args_of(expected));
  for (Isa const isa : all_isas()) {
    WithIsa const with{isa};
    Case got{count, numbers};
    optim::update(args_of(got));
    INFO(name_of(isa) << ", " << count << " elements");
    CHECK(got.difference(expected) == -1);
  }
}

}  // namespace zeroth::testing
