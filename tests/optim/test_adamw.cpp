// SPDX-License-Identifier: Apache-2.0
#include "zeroth/optim/update.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "optim/update_case.hpp"
#include "support/catch.hpp"

namespace zeroth::optim {
namespace {

using testing::Numbers;
using testing::random_floats;
using testing::scalars_of_update;
template <class G, class P>
using Given = testing::UpdateCase<G, P>;

std::vector<Segment> whole(std::int64_t count) { return {{0, count, 1, 1}}; }

/// Segments with all kinds of boundaries: empty, of one element, odd, beyond a block, with gaps between and after them.
std::vector<Segment> ragged(std::int64_t count) {
  return {{0, 0, 1, 1},        {1, 2, 1, 0},         {2, 19, 2, 1},
          {64, 64 + 31, 1, 1}, {100, 1701, 0.5F, 2}, {1701, count - 3, 1, 0}};
}

TEMPLATE_TEST_CASE("every instruction set gives the bits of one element after another", "", (std::pair<float, float>),
                   (std::pair<float, bf16>), (std::pair<float, fp16>), (std::pair<bf16, bf16>), (std::pair<bf16, fp16>),
                   (std::pair<bf16, float>), (std::pair<fp16, fp16>), (std::pair<fp16, bf16>),
                   (std::pair<fp16, float>)) {
  using G = typename TestType::first_type;
  using P = typename TestType::second_type;
  constexpr std::int64_t count = 4001;
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any_finite, Numbers::any);
  bool const decoupled = GENERATE(true, false);
  bool const writes_parameter = GENERATE(true, false);
  auto const segments = GENERATE(whole(count), ragged(count));
  auto const scalars = scalars_of_update(7);
  testing::check_all_isas<Given<G, P>>(count, numbers, [&](auto& state) {
    state.adam().decoupled_decay = decoupled;
    auto args = state.args(scalars, segments);
    args.parameter = writes_parameter ? args.parameter : nullptr;
    return args;
  });
}

TEST_CASE("every count up to some blocks of vectors is right to the last element") {
  auto const scalars = scalars_of_update(2);
  for (std::int64_t count = 0; count < 150; ++count) {
    auto const segments = whole(count);
    testing::check_all_isas<Given<bf16, bf16>>(count, Numbers::ordinary,
                                               [&](auto& state) { return state.args(scalars, segments); });
  }
}

/// Kingma and Ba's algorithm 1, and Loshchilov and Hutter's algorithm 2, in fp64 as printed.
struct Textbook {
  double theta = 0, m = 0, v = 0;
  void update(Adam const& rules, double rate, double gradient, int t) {
    double const decay = static_cast<double>(rules.weight_decay);
    double const beta1 = static_cast<double>(rules.beta1), beta2 = static_cast<double>(rules.beta2);
    double const g = gradient + (rules.decoupled_decay ? 0 : decay * theta);
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    double const m_hat = rules.bias_correction ? m / (1 - std::pow(beta1, t)) : m;
    double const v_hat = rules.bias_correction ? v / (1 - std::pow(beta2, t)) : v;
    theta -= rate * (m_hat / (std::sqrt(v_hat) + static_cast<double>(rules.epsilon)) +
                     (rules.decoupled_decay ? decay * theta : 0));
  }
};

TEST_CASE("twenty updates follow the textbook") {
  Adam adam;
  adam.weight_decay = 0.05F;
  adam.epsilon = 1e-6F;
  adam.decoupled_decay = GENERATE(true, false);
  adam.bias_correction = GENERATE(true, false);
  StepRules rules;
  rules.betas = betas_of(adam);
  rules.schedule.base = 1.0F / 64;
  constexpr std::int64_t count = 100;
  constexpr double weight = 4;
  Given<float, float> state{count, Numbers::ordinary};
  std::fill(state.states[0].begin(), state.states[0].end(), 0.0F);
  std::fill(state.states[1].begin(), state.states[1].end(), 0.0F);
  auto const segments = whole(count);
  std::vector<Textbook> expected;
  for (float const master : state.master) {
    expected.push_back({static_cast<double>(master), 0, 0});
  }
  StepScalars scalars;
  for (int t = 1; t <= 20; ++t) {
    state.gradient = random_floats(count, Numbers::ordinary, static_cast<std::uint32_t>(100 + t));
    advance(rules, {1, 0, weight, 0}, scalars);
    state.update.rule = adam;
    update(state.args(scalars, segments));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i].update(adam, 1.0 / 64, static_cast<double>(state.gradient[i]) / weight, t);
    }
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(i);
    CHECK(static_cast<double>(state.master[i]) == Approx(expected[i].theta).epsilon(0).margin(2e-6));
    CHECK(static_cast<double>(state.states[0][i]) == Approx(expected[i].m).epsilon(0).margin(2e-7));
    CHECK(static_cast<double>(state.states[1][i]) == Approx(expected[i].v).epsilon(1e-5));
    CHECK(state.parameter[i] == state.master[i]);
  }
}

TEST_CASE("the first update moves every element by the learning rate, whatever its gradient") {
  StepScalars const scalars = scalars_of_update(1);
  Given<float, bf16> state{6, Numbers::ordinary};
  state.gradient = {1e-3F, -1e-3F, 1, -1, 1e3F, 0};
  state.master.assign(6, 2.0F);
  state.states[0].assign(6, 0.0F);
  state.states[1].assign(6, 0.0F);
  auto const segments = whole(6);
  state.adam().weight_decay = 0;
  update(state.args(scalars, segments));
  for (std::size_t i = 0; i < 6; ++i) {
    double const sign = state.gradient[i] > 0 ? 1 : state.gradient[i] < 0 ? -1 : 0;
    INFO(i);
    CHECK(static_cast<double>(state.master[i]) == Approx(2 - 0.01 * sign).epsilon(1e-6));
    CHECK(state.parameter[i].bits == from_float<bf16>(state.master[i]).bits);
  }
}

TEST_CASE("a segment's factors multiply rate and decay, and elements in no segment stay") {
  auto const scalars = scalars_of_update(3);
  Given<float, bf16> state{30, Numbers::ordinary};
  auto const before = state;
  std::vector<Segment> const segments{{0, 10, 0, 1}, {10, 20, 1, 0}};
  update(state.args(scalars, segments));
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(state.master[i] == before.master[i]);  // without a rate there is no decay either
    CHECK(state.states[0][i] != before.states[0][i]);
  }
  Given<float, bf16> undecayed{30, Numbers::ordinary};
  undecayed.adam().weight_decay = 0;
  update(undecayed.args(scalars, segments));
  for (std::size_t i = 10; i < 20; ++i) {
    CHECK(state.master[i] == undecayed.master[i]);
  }
  for (std::size_t i = 20; i < 30; ++i) {
    CHECK(state.master[i] == before.master[i]);
    CHECK(state.states[0][i] == before.states[0][i]);
    CHECK(state.states[1][i] == before.states[1][i]);
    CHECK(state.parameter[i].bits == before.parameter[i].bits);
  }
}

TEST_CASE("a skipped update touches nothing, even if gradients are not numbers") {
  Given<fp16, fp16> state{100, Numbers::any};
  auto const before = state;
  StepScalars scalars;
  scalars.skip = true;
  update(state.args(scalars, whole(100)));
  CHECK(std::memcmp(state.master.data(), before.master.data(), 400) == 0);
  CHECK(std::memcmp(state.states[0].data(), before.states[0].data(), 400) == 0);
  CHECK(std::memcmp(state.states[1].data(), before.states[1].data(), 400) == 0);
  CHECK(std::memcmp(state.parameter.data(), before.parameter.data(), 200) == 0);
}

TEST_CASE("the master may be the parameter") {
  auto const scalars = scalars_of_update(3);
  Given<float, float> alone{1000, Numbers::ordinary}, beside{1000, Numbers::ordinary};
  auto const segments = whole(1000);
  auto args = alone.args(scalars, segments);
  args.parameter = nullptr;
  update(args);
  update(beside.args(scalars, segments));
  CHECK(testing::first_difference(alone.master, beside.master) == -1);
  CHECK(testing::first_difference(beside.parameter, beside.master) == -1);
}

}  // namespace
}  // namespace zeroth::optim
