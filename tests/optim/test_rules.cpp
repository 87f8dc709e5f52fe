// SPDX-License-Identifier: Apache-2.0
/// Every rule: against PyTorch's formulas in fp64, on every instruction set, in every dtype; and rules of a program's
/// own.
#include <cmath>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "optim/update_case.hpp"
#include "support/catch.hpp"
#include "support/rules.hpp"

namespace zeroth::optim {
namespace {

using testing::Numbers;
using testing::random_floats;
using testing::scalars_of_update;

/// torch.optim of PyTorch 2.x, one element; Lion as algorithm 2 of its paper.
struct Textbook {
  double theta = 0, first = 0, second = 0;

  void update(Adam const& r, double rate, double g, int t) {
    double const beta1 = wide(r.beta1), beta2 = wide(r.beta2);
    double const decay = wide(r.weight_decay);
    theta -= rate * decay * theta;
    first = beta1 * first + (1 - beta1) * g;
    second = beta2 * second + (1 - beta2) * g * g;
    theta -=
        rate * (first / (1 - std::pow(beta1, t))) / (std::sqrt(second / (1 - std::pow(beta2, t))) + wide(r.epsilon));
  }
  void update(Sgd const& r, double rate, double g, int /*t*/) { theta -= rate * (g + wide(r.weight_decay) * theta); }
  void update(Momentum const& r, double rate, double g, int t) {
    g += wide(r.weight_decay) * theta;
    first = t == 1 ? g : wide(r.momentum) * first + (1 - wide(r.dampening)) * g;
    theta -= rate * (r.nesterov ? g + wide(r.momentum) * first : first);
  }
  void update(Adagrad const& r, double rate, double g, int t) {
    g += wide(r.weight_decay) * theta;
    first = (t == 1 ? wide(r.initial_sum) : first) + g * g;
    theta -= rate / (1 + (t - 1) * wide(r.rate_decay)) * g / (std::sqrt(first) + wide(r.epsilon));
  }
  void update(RmsProp const& r, double rate, double g, int /*t*/) { theta -= rate * normalised(r, g); }
  void update(RmsPropMomentum const& r, double rate, double g, int /*t*/) {
    second = wide(r.momentum) * second + normalised(r.plain, g);
    theta -= rate * second;
  }
  void update(Lion const& r, double rate, double g, int /*t*/) {
    double const beta1 = wide(r.beta1), beta2 = wide(r.beta2);
    double const direction = beta1 * first + (1 - beta1) * g;
    double const sign = direction > 0 ? 1 : direction < 0 ? -1 : 0;
    theta -= rate * (sign + wide(r.weight_decay) * theta);
    first = beta2 * first + (1 - beta2) * g;
  }
  void update(Muon const& /*r*/, double /*rate*/, double /*g*/, int /*t*/) {}        // see test_muon.cpp
  void update(Lamb const& /*r*/, double /*rate*/, double /*g*/, int /*t*/) {}        // see test_moments.cpp
  void update(OneBitAdam const& /*r*/, double /*rate*/, double /*g*/, int /*t*/) {}  // see one_bit_adam.cpp of parity
  void update(CustomRule const& /*r*/, double /*rate*/, double /*g*/, int /*t*/) {}

 private:
  static double wide(double value) { return value; }
  double normalised(RmsProp const& r, double g) {
    g += wide(r.weight_decay) * theta;
    first = wide(r.alpha) * first + (1 - wide(r.alpha)) * g * g;
    return g / (std::sqrt(first) + wide(r.epsilon));
  }
};

/// The rule of a segment with a weight decay factor.
template <class R>
R decayed(R rule, float factor) {
  if constexpr (requires { rule.weight_decay; }) {
    rule.weight_decay *= factor;
  } else if constexpr (requires { rule.plain.weight_decay; }) {
    rule.plain.weight_decay *= factor;
  }
  return rule;
}

std::vector<float> magnitudes(std::vector<float> values) {
  for (float& value : values) {
    value = std::fabs(value);
  }
  return values;
}

/// A case whose states may all be sums of squares.
template <class G, class P, class M, class S>
testing::UpdateCase<G, P, M, S> case_of(Rule const& rule, std::int64_t count, Numbers numbers) {
  testing::UpdateCase<G, P, M, S> result{count, numbers};
  result.update.rule = rule;
  result.states[0] = testing::rounded<S>(magnitudes(random_floats(count, numbers, 2)));
  return result;
}

}  // namespace

TEST_CASE("an average takes one minus its rate of what comes, as PyTorch takes it: in fp64, rounded once") {
  constexpr std::int64_t count = 40;
  auto const after_one = [&](Rule const& rule) {
    testing::UpdateCase<float, float> state{count, Numbers::ordinary};
    state.update.rule = rule;
    std::ranges::fill(state.gradient, 1.0F);
    for (auto& values : state.states) {
      std::ranges::fill(values, 0.0F);
    }
    auto scalars = scalars_of_update(2);
    scalars.gradient_scale = 1;
    update(state.args(scalars, std::vector<Segment>{{0, count, 1, 1}}));
    return std::array{state.states[0].back(), state.states[1].back()};
  };
  CHECK(after_one(Adam{.beta1 = 0.9, .beta2 = 0.999}) == std::array{0.1F, 0.001F});
  CHECK(after_one(RmsProp{.alpha = 0.99})[0] == 0.01F);
  CHECK(after_one(Lion{.beta1 = 0.9, .beta2 = 0.999})[0] == 0.001F);
  CHECK(after_one(Momentum{.momentum = 0.5F, .dampening = 0.9})[0] == 0.1F);
}

TEST_CASE("twenty updates by every rule follow PyTorch's formulas") {
  constexpr std::int64_t count = 100;
  constexpr double weight = 4;
  for (auto const& [name, rule, optimizer] : testing::all_rules()) {
    INFO(name);
    testing::UpdateCase<float, float> state{count, Numbers::ordinary};
    state.update.rule = rule;
    auto const states = states_of(rule);
    REQUIRE(static_cast<int>(states.size()) == state_count(rule));
    for (std::size_t k = 0; k < states.size(); ++k) {
      std::fill(state.states[k].begin(), state.states[k].end(), states[k].initial);
    }
    std::vector<Textbook> expected;
    for (float const master : state.master) {
      expected.push_back({static_cast<double>(master), 0, 0});
    }
    auto const start = state.master;
    StepRules rules;
    rules.betas = betas_of(rule);
    rules.schedule.base = 1.0F / 64;
    StepScalars scalars;
    std::vector<Segment> const segments{{0, count / 2, 1, 1}, {count / 2, count, 0.5F, 2}};
    for (int t = 1; t <= 20; ++t) {
      state.gradient = random_floats(count, Numbers::ordinary, static_cast<std::uint32_t>(100 + t));
      advance(rules, {1, 0, weight, 0}, scalars);
      update(state.args(scalars, segments));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        auto const& segment = segments[i < count / 2 ? 0 : 1];
        auto const rate = static_cast<double>(segment.learning_rate_factor) / 64;
        std::visit(
            [&](auto const& each) {
              expected[i].update(decayed(each, segment.weight_decay_factor), rate,
                                 static_cast<double>(state.gradient[i]) / weight, t);
            },
            rule);
      }
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO(i);
      CHECK(static_cast<double>(state.master[i]) == Approx(expected[i].theta).epsilon(0).margin(4e-6));
      CHECK(state.master[i] != start[i]);
      CHECK(state.parameter[i] == state.master[i]);
      if (!states.empty()) {
        CHECK(static_cast<double>(state.states[0][i]) == Approx(expected[i].first).epsilon(1e-5).margin(1e-6));
      }
      if (states.size() > 1) {
        CHECK(static_cast<double>(state.states[1][i]) == Approx(expected[i].second).epsilon(1e-5).margin(1e-6));
      }
    }
  }
}

TEMPLATE_TEST_CASE("every rule gives the bits of one element after another on every instruction set", "",
                   (std::tuple<float, float, float, float>), (std::tuple<bf16, bf16, float, float>),
                   (std::tuple<fp16, fp16, float, float>), (std::tuple<float, bf16, bf16, float>),
                   (std::tuple<bf16, bf16, bf16, bf16>)) {
  using G = std::tuple_element_t<0, TestType>;
  using P = std::tuple_element_t<1, TestType>;
  using M = std::tuple_element_t<2, TestType>;
  using S = std::tuple_element_t<3, TestType>;
  constexpr std::int64_t count = 1701;
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any);
  auto const scalars = scalars_of_update(GENERATE(1, 7));
  std::vector<Segment> const segments{{0, 3, 1, 1, 5}, {3, 1024, 0.5F, 2, 128}, {1030, count, 1, 0, 4096}};
  for (auto const& [name, rule, optimizer] : testing::kernel_rules()) {
    INFO(name);
    auto expected = case_of<G, P, M, S>(rule, count, numbers);
    testing::update_one_by_one(expected, expected.args(scalars, segments));
    for (Isa const isa : testing::all_isas()) {
      testing::WithIsa const with{isa};
      auto got = case_of<G, P, M, S>(rule, count, numbers);
      update(got.args(scalars, segments));
      INFO(testing::name_of(isa));
      CHECK(got.difference(expected) == -1);
    }
  }
}

TEMPLATE_TEST_CASE("a program's own rule does what the same rule of the library does", "",
                   (std::tuple<float, float, float, float>), (std::tuple<bf16, bf16, float, float>),
                   (std::tuple<bf16, bf16, bf16, bf16>)) {
  constexpr std::int64_t count = 5000;
  auto const scalars = scalars_of_update(GENERATE(1, 3));
  testing::UpdateCase<std::tuple_element_t<0, TestType>, std::tuple_element_t<1, TestType>,
                      std::tuple_element_t<2, TestType>, std::tuple_element_t<3, TestType>>
      own{count, Numbers::ordinary}, library{count, Numbers::ordinary};
  std::vector<Segment> const segments{{0, 700, 1, 1, 128}, {703, count, 2, 1, 4096}};
  own.update.rule = testing::own_momentum();
  library.update.rule = testing::same_momentum();
  CHECK(name_of(own.update.rule) == "own momentum");
  CHECK(state_count(own.update.rule) == 1);
  update(own.args(scalars, segments));
  update(library.args(scalars, segments));
  CHECK(own.difference(library) == -1);
}

TEST_CASE("a program's own rule sees the parameter's factors, and what it throws comes back") {
  testing::UpdateCase<float, float> state{10, Numbers::ordinary};
  std::vector<CustomRuleElements> seen;
  state.update.rule = CustomRule{"spy", {}, [&](CustomRuleElements const& e) { seen.push_back(e); }};
  auto scalars = scalars_of_update(5);
  update(state.args(scalars, {{2, 9, 0.5F, 3}}));
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].master.data() == state.master.data() + 2);
  CHECK(seen[0].master.size() == 7);
  CHECK(seen[0].gradient.size() == 7);
  CHECK(seen[0].states[0].empty());
  CHECK(seen[0].learning_rate == 0.5F * scalars.learning_rate);
  CHECK(seen[0].weight_decay_factor == 3);
  CHECK(seen[0].applied == 5);
  state.update.rule =
      CustomRule{"broken", {}, [](CustomRuleElements const&) { throw std::runtime_error{"of the program"}; }};
  CHECK_THROWS_WITH(update(state.args(scalars, {{0, 10, 1, 1}})), "of the program");
  scalars.skip = true;
  CHECK_NOTHROW(update(state.args(scalars, {{0, 10, 1, 1}})));
}

}  // namespace zeroth::optim
