// SPDX-License-Identifier: Apache-2.0
/// LAMB's two passes: against its formulas in fp64, and in the bits of one element after another.
#include <array>
#include <cmath>
#include <vector>

#include "../../optim/lamb_element.hpp"
#include "device/element_arithmetic.hpp"
#include "device/element_loops.hpp"
#include "device/moment_loops.hpp"
#include "optim/update_case.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::device {
namespace {

using optim::Segment;
using testing::Numbers;
using testing::random_floats;

/// Both passes over one slice that has all of its parameters, one for each segment.
template <class Case>
struct Step {
  std::vector<float> weight_squares, direction_squares, ratios;

  void run(Case& on, optim::StepScalars const& scalars, std::vector<Segment> segments) {
    auto const args = on.args(scalars, segments);
    auto const blocks = static_cast<std::size_t>(sum_blocks(args.count));
    weight_squares.assign(blocks, -1);
    direction_squares.assign(blocks, -1);
    device::move_moments({args, weight_squares.data(), direction_squares.data()});
    std::vector<NormSums> sums(segments.size());
    for (std::size_t i = 0; i < segments.size(); ++i) {
      auto const first = segments[i].begin / sum_block_count;
      auto const count = sum_blocks(segments[i].end - segments[i].begin);
      sums[i] = {total_of(weight_squares.data() + first, count), total_of(direction_squares.data() + first, count)};
    }
    ratios.assign(segments.size(), -1);
    device::trust_ratios({.rule = &std::get<optim::Lamb>(on.update.rule),
                          .scalars = &scalars,
                          .sums = sums.data(),
                          .ratios = ratios.data(),
                          .count = std::ssize(segments)});
    for (std::size_t i = 0; i < segments.size(); ++i) {
      segments[i].trust_ratio = &ratios[i];
    }
    optim::update(on.args(scalars, segments));
  }
};

/// You et al. 2020, algorithm 2, with the bias correction on the rate.
struct Textbook {
  std::vector<double> weights, first, second;

  void update(optim::Lamb const& r, double rate, double decay, std::vector<double> const& gradient, int t) {
    double weight_squares = 0, direction_squares = 0;
    std::vector<double> direction;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      first[i] = r.beta1 * first[i] + (1 - r.beta1) * gradient[i];
      second[i] = r.beta2 * second[i] + (1 - r.beta2) * gradient[i] * gradient[i];
      direction.push_back(first[i] / (std::sqrt(second[i]) + static_cast<double>(r.epsilon)) + decay * weights[i]);
      weight_squares += weights[i] * weights[i];
      direction_squares += direction[i] * direction[i];
    }
    double ratio = 1;
    if (weight_squares > 0 && direction_squares > 0) {
      ratio = std::sqrt(weight_squares / direction_squares);
      ratio = std::max(std::min(ratio, static_cast<double>(r.max_coefficient)), static_cast<double>(r.min_coefficient));
    }
    double const correction =
        r.bias_correction ? std::sqrt(1 - std::pow(r.beta2, t)) / (1 - std::pow(r.beta1, t)) : 1.0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] -= rate * correction * ratio * direction[i];
    }
  }
};

}  // namespace

TEST_CASE("twenty steps of LAMB follow its formulas") {
  constexpr double weight = 4;
  constexpr std::int64_t count = 1300;
  bool const correction = GENERATE(true, false);
  auto const limits = GENERATE(std::array{10.0F, 0.01F}, std::array{0.25F, 0.125F}, std::array{40.0F, 30.0F});
  optim::Lamb const rule{.epsilon = 1e-6F,
                         .weight_decay = 0.1F,
                         .max_coefficient = limits[0],
                         .min_coefficient = limits[1],
                         .bias_correction = correction};
  testing::UpdateCase<float, float> state{count, Numbers::ordinary};
  state.update.rule = rule;
  for (auto& values : state.states) {
    std::ranges::fill(values, 0.0F);
  }
  // A parameter of one element, one of zeros, and one that ends inside a block.
  std::vector<Segment> const segments{{0, 1, 1, 1}, {128, 640, 0.5F, 2}, {640, 700, 1, 0}, {768, count, 1, 1}};
  std::fill(state.master.begin() + 640, state.master.begin() + 700, 0.0F);
  std::vector<Textbook> expected;
  for (auto const& [begin, end, rate, decay, element, ratio] : segments) {
    auto const size = static_cast<std::size_t>(end - begin);
    expected.push_back({{state.master.begin() + begin, state.master.begin() + end},
                        std::vector<double>(size),
                        std::vector<double>(size)});
  }
  auto const start = state.master;
  optim::StepRules rules;
  rules.betas = optim::betas_of(rule);
  rules.schedule.base = 1.0F / 64;
  optim::StepScalars scalars;
  Step<decltype(state)> step;
  for (int t = 1; t <= 20; ++t) {
    state.gradient = random_floats(count, Numbers::ordinary, static_cast<std::uint32_t>(100 + t));
    optim::advance(rules, {1, 0, weight, 0}, scalars);
    step.run(state, scalars, segments);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      std::vector<double> gradient{state.gradient.begin() + segments[i].begin,
                                   state.gradient.begin() + segments[i].end};
      std::ranges::for_each(gradient, [](double& g) { g /= weight; });
      expected[i].update(rule, static_cast<double>(segments[i].learning_rate_factor) / 64,
                         0.1 * static_cast<double>(segments[i].weight_decay_factor), gradient, t);
    }
  }
  std::vector<float> untouched = start;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    for (auto k = segments[i].begin; k < segments[i].end; ++k) {
      auto const at = static_cast<std::size_t>(k), in = static_cast<std::size_t>(k - segments[i].begin);
      INFO(k);
      CHECK(static_cast<double>(state.master[at]) == Approx(expected[i].weights[in]).epsilon(2e-5).margin(2e-5));
      CHECK(static_cast<double>(state.states[0][at]) == Approx(expected[i].first[in]).epsilon(1e-5).margin(1e-6));
      CHECK(static_cast<double>(state.states[1][at]) == Approx(expected[i].second[in]).epsilon(1e-5).margin(1e-6));
      CHECK(state.parameter[at] == state.master[at]);
      untouched[at] = state.master[at];
    }
  }
  CHECK(state.master == untouched);  // padding
}

TEST_CASE("a trust ratio has limits, and is 1 where a norm is 0") {
  optim::Lamb const rule{.max_coefficient = 4, .min_coefficient = 0.5F};
  CHECK(optim::trust_ratio(rule, 9, 4) == 1.5F);
  CHECK(optim::trust_ratio(rule, 1e30, 1) == 4);
  CHECK(optim::trust_ratio(rule, 1, 1e30) == 0.5F);
  CHECK(optim::trust_ratio(rule, 0, 1) == 1);
  CHECK(optim::trust_ratio(rule, 1, 0) == 1);
  CHECK(std::isnan(optim::trust_ratio(rule, std::nan(""), 1)));
}

TEMPLATE_TEST_CASE("LAMB gives the bits of one element after another on every instruction set", "",
                   (std::tuple<float, float, float>), (std::tuple<bf16, bf16, float>), (std::tuple<fp16, fp16, float>),
                   (std::tuple<float, bf16, float>), (std::tuple<bf16, bf16, bf16>)) {
  using G = std::tuple_element_t<0, TestType>;
  using P = std::tuple_element_t<1, TestType>;
  using M = std::tuple_element_t<2, TestType>;
  using Case = testing::UpdateCase<G, P, M>;
  constexpr std::int64_t count = 1701;
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any);
  auto const scalars = testing::scalars_of_update(GENERATE(1, 7));
  std::vector<Segment> const segments{{0, 3, 1, 1, 0}, {128, 1024, 0.5F, 2, 128}, {1152, count, 1, 0, 4096}};
  auto const made = [&] {
    Case made{count, numbers};
    made.update.rule = optim::Lamb{.weight_decay = 0.1F};
    return made;
  };
  auto expected = made();
  std::vector<float> squares(14, -1), of_directions(14, -1);  // block 8 is padding
  for (auto const& segment : segments) {
    auto const factors = optim::factors_of(std::get<optim::Lamb>(expected.update.rule), scalars, segment);
    for (auto first = segment.begin; first < segment.end; first += sum_block_count) {
      float weight_lanes[square_lanes] = {}, direction_lanes[square_lanes] = {};
      for (auto k = first; k < std::min(first + sum_block_count, segment.end); ++k) {
        auto const i = static_cast<std::size_t>(k);
        auto const lane = static_cast<std::size_t>(k - first) % square_lanes;
        float const master = to_float(expected.master[i]);
        optim::move_moments(factors, to_float(expected.gradient[i]), expected.states[0][i], expected.states[1][i]);
        auto const direction = optim::direction_of(factors, master, expected.states[0][i], expected.states[1][i]);
        weight_lanes[lane] = add_square(weight_lanes[lane], master);
        direction_lanes[lane] = add_square(direction_lanes[lane], direction);
      }
      auto const block = static_cast<std::size_t>(first / sum_block_count);
      squares[block] = fold_lanes(weight_lanes);
      of_directions[block] = fold_lanes(direction_lanes);
    }
  }
  for (Isa const isa : testing::all_isas()) {
    testing::WithIsa const with{isa};
    auto got = made();
    std::vector<float> weight_squares(14, -1), direction_squares(14, -1);
    device::move_moments({got.args(scalars, segments), weight_squares.data(), direction_squares.data()});
    INFO(testing::name_of(isa));
    CHECK(got.difference(expected) == -1);
    CHECK(testing::first_difference(weight_squares, squares) == -1);
    CHECK(testing::first_difference(direction_squares, of_directions) == -1);
  }
}

TEST_CASE("a step that LAMB skips changes nothing") {
  testing::UpdateCase<float, bf16> state{500, Numbers::any};
  state.update.rule = optim::Lamb{};
  auto scalars = testing::scalars_of_update(3);
  scalars.skip = true;
  auto const before = state;
  Step<decltype(state)> step;
  step.run(state, scalars, {{0, 500, 1, 1}});
  CHECK(state.difference(before) == -1);
  CHECK(step.weight_squares == std::vector<float>(4, -1));
  CHECK(step.ratios == std::vector<float>{-1});
}

}  // namespace zeroth::device
