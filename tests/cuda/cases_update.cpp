// SPDX-License-Identifier: Apache-2.0
/// Updates by rules, against the CPU's loop.
#include <array>
#include <type_traits>
#include <variant>

#include "device/cuda_launch.hpp"
#include "machine.hpp"
#include "support/rules.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::cuda {
namespace {

using optim::Segment;
using testing::machine;
using testing::Numbers;
using testing::OnMachine;
using testing::random_floats;
using testing::rounded;
using testing::same_bits;

/// P is void if the master is the parameter.
template <class GradientType, class ParameterType, class MasterType = float, class MomentsType = float>
struct Types {
  using G = GradientType;
  using P = ParameterType;
  using M = MasterType;
  using S = MomentsType;
};

optim::StepScalars scalars_after(int updates) {
  optim::StepRules rules;
  rules.schedule.base = 0.02F;
  optim::StepScalars scalars;
  for (int update = 0; update < updates; ++update) {
    optim::advance(rules, {9, 2, 3, 0}, scalars);
  }
  return scalars;
}

/// The inputs of one update, and its expected results.
template <class G, class P, class M = float, class S = float>
struct Case {
  using Stored = std::conditional_t<Element<P>, P, float>;

  Case(std::int64_t count, Numbers numbers)
      : master{rounded<M>(random_floats(count, numbers, 1))},
        states{rounded<S>(random_floats(count, numbers, 2)), rounded<S>(random_floats(count, numbers, 3))},
        gradient{rounded<G>(random_floats(count, numbers, 4))},
        parameter(static_cast<std::size_t>(count)),
        average{random_floats(count, numbers, 5)} {
    for (S& value : states[1]) {
      value = from_float<S>(std::fabs(to_float(value)));
    }
    args.master_dtype = dtype_of<M>;
    args.states_dtype = dtype_of<S>;
    args.count = count;
    args.gradient_dtype = dtype_of<G>;
    args.parameter_dtype = dtype_of<Stored>;
  }

  /// States are not negative then: they may be sums of squares.
  void take(optim::Rule const& rule) {
    update.rule = rule;
    for (S& value : states[0]) {
      value = from_float<S>(std::fabs(to_float(value)));
    }
  }

  /// Runs it on the machine, arrays shifted by so many elements, and on the CPU; everything must be equal.
  void check(std::int64_t shift = 0, std::int64_t parameter_shift = 0) {
    OnMachine<M> const their_master{master, shift};
    OnMachine<S> const first_state{states[0], shift}, second_state{states[1], shift};
    OnMachine<G> const their_gradient{gradient, shift};
    OnMachine<Stored> const their_parameter{parameter, parameter_shift};
    OnMachine<float> const their_average{average, shift};
    OnMachine<optim::StepScalars> const their_scalars{{scalars}};
    auto theirs = args;
    theirs.master = their_master.data();
    theirs.states = {first_state.data(), second_state.data()};
    theirs.update = &update;
    theirs.gradient = their_gradient.data();
    theirs.parameter = Element<P> ? their_parameter.data() : nullptr;
    theirs.scalars = their_scalars.data();
    theirs.average = update.ema_decay < 0 ? nullptr : their_average.data();
    {
      auto const short_lived = segments;
      theirs.segments = short_lived;
      CHECK(cuda::update(machine().stream(), theirs) == cudaSuccess);
    }

    auto expected = *this;
    expected.run_here();
    CHECK(testing::first_difference(their_master.values(), expected.master) == -1);
    CHECK(testing::first_difference(first_state.values(), expected.states[0]) == -1);
    CHECK(testing::first_difference(second_state.values(), expected.states[1]) == -1);
    CHECK(testing::first_difference(their_parameter.values(), expected.parameter) == -1);
    CHECK(testing::first_difference(their_average.values(), expected.average) == -1);
    CHECK(same_bits(their_gradient.values(), gradient));
  }

  void run_here() {
    auto ours = args;
    ours.master = master.data();
    ours.states = {states[0].data(), states[1].data()};
    ours.update = &update;
    ours.gradient = gradient.data();
    ours.parameter = Element<P> ? parameter.data() : nullptr;
    ours.segments = segments;
    ours.scalars = &scalars;
    ours.average = update.ema_decay < 0 ? nullptr : average.data();
    optim::update(ours);
  }

  [[nodiscard]] optim::Adam& adam() { return std::get<optim::Adam>(update.rule); }

  optim::Update update{optim::Adam{.weight_decay = 0.1F}, 0x123456789abcdef};
  std::vector<M> master;
  std::array<std::vector<S>, optim::most_states> states;  // the second is not negative
  std::vector<G> gradient;
  std::vector<Stored> parameter;
  std::vector<float> average;
  std::vector<Segment> segments;
  optim::StepScalars scalars = scalars_after(3);
  optim::UpdateArgs args;
};

TEMPLATE_TEST_CASE("an update gives the CPU's bits for every dtype", "", (Types<float, void>), (Types<float, bf16>),
                   (Types<float, fp16>), (Types<bf16, void>), (Types<bf16, bf16>), (Types<bf16, fp16>),
                   (Types<fp16, void>), (Types<fp16, bf16>), (Types<fp16, fp16>), (Types<bf16, void, bf16, float>),
                   (Types<bf16, void, bf16, bf16>)) {
  testing::every_way();
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any);
  auto const rule = GENERATE(from_range(testing::kernel_rules()));
  INFO(rule.name);
  Case<typename TestType::G, typename TestType::P, typename TestType::M, typename TestType::S> given{4501, numbers};
  given.take(rule.rule);
  given.segments = {{0, 4501, 1, 1}};
  given.check();
}

TEST_CASE("an update is right at every count and alignment") {
  testing::every_way();
  for (std::int64_t const count : {0, 1, 3, 4, 5, 8, 13, 1021, 1024, 2047, 2048, 2049, 4096, 4099}) {
    for (std::int64_t const shift : {0, 1, 2, 4, 7, 8}) {
      INFO(count << " elements, shifted by " << shift);
      Case<float, void> narrow{count, Numbers::ordinary};
      narrow.segments = {{0, count, 1, 1}};
      narrow.check(shift);
      Case<bf16, bf16> wide{count, Numbers::ordinary};
      wide.segments = {{0, count, 1, 1}};
      wide.check(shift, shift);
      wide.check(shift, shift + 1);  // no element at which all arrays are aligned
    }
  }
}

TEST_CASE("averages of masters move with the CPU's bits, at every count and alignment") {
  testing::every_way();
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any);
  for (std::int64_t const count : {1, 5, 1024, 2049, 4099}) {
    for (std::int64_t const shift : {0, 1, 4}) {
      INFO(count << " elements, shifted by " << shift);
      auto const check = [&](auto given) {
        auto const before = given.average;
        given.update.ema_decay = 0.75;
        given.segments = {{0, count / 2, 1, 1}, {count / 2 + 1, count, 1, 1}};
        given.check(shift, shift);
        given.run_here();
        CHECK((count == 1 || testing::first_difference(before, given.average) == 0));
      };
      check(Case<float, void>{count, numbers});
      check(Case<float, bf16>{count, numbers});
      check(Case<bf16, fp16>{count, numbers});
    }
  }
}

TEST_CASE("updates of bf16 masters are right at every count, alignment and place in the model") {
  testing::every_way();
  constexpr std::int64_t far = std::int64_t{1} << 40U;
  for (std::int64_t const count : {0, 1, 7, 8, 9, 2047, 2048, 4099}) {
    for (std::int64_t const shift : {0, 1, 4, 8}) {
      for (std::int64_t const element : {std::int64_t{0}, std::int64_t{3}, far + 8, far - 5}) {
        INFO(count << " elements, shifted by " << shift << ", from " << element);
        Case<bf16, void, bf16, bf16> given{count, Numbers::ordinary};
        given.segments = {{0, count, 1, 1, element}};
        given.check(shift);
        Case<bf16, void, bf16, float> wide{count, Numbers::ordinary};
        wide.segments = {{0, count / 3, 1, 1, element}, {count / 3, count, 2, 0, element + 99}};
        wide.check(shift);
      }
    }
  }
}

TEST_CASE("segments have their own factors, and elements between them are left unchanged") {
  testing::every_way();
  auto const decoupled = GENERATE(false, true);
  Case<bf16, bf16> given{20000, Numbers::ordinary};
  given.adam().decoupled_decay = decoupled;
  given.segments = {{0, 1, 2, 0},        {1, 7, 0.5F, 1},      {8, 8, 9, 9},
                    {8, 16, 0.25F, 3},   {19, 2100, 1, 0},     {2100, 2101, 4, 4},
                    {4096, 12289, 1, 1}, {12290, 12300, 0, 1}, {13000, 19999, 3, 2}};
  for (std::int64_t const shift : {0, 3}) {
    given.check(shift, shift);
  }
}

TEST_CASE("more segments than one launch can take are updated") {
  testing::every_way();
  for (int const segment_count : {79, 80, 81, 300}) {
    INFO(segment_count << " segments");
    Case<float, fp16> given{std::int64_t{31} * segment_count, Numbers::ordinary};
    for (int k = 0; k < segment_count; ++k) {
      given.segments.push_back({std::int64_t{31} * k, std::int64_t{31} * k + 17 + k % 15,
                                1 + 0.01F * static_cast<float>(k), static_cast<float>(k % 3)});
    }
    given.check();
  }
}

TEST_CASE("an update without segments, or with only empty ones, does nothing") {
  testing::every_way();
  Case<float, void> given{100, Numbers::ordinary};
  given.check();
  given.segments = {{0, 0, 1, 1}, {50, 50, 1, 1}};
  given.check();
}

TEST_CASE("a step that is skipped changes nothing") {
  testing::every_way();
  Case<bf16, bf16> given{5000, Numbers::any};
  given.segments = {{0, 5000, 1, 1}};
  given.scalars.skip = true;
  auto const before = given;
  given.check();
  given.run_here();
  CHECK(same_bits(given.master, before.master));
}

TEST_CASE("the scalars are read when the kernel runs, not when it is launched") {
  testing::every_way();
  Case<float, void> given{64, Numbers::ordinary};
  given.segments = {{0, 64, 1, 1}};
  OnMachine<float> const master{given.master}, m{given.states[0]}, v{given.states[1]}, gradient{given.gradient};
  OnMachine<optim::StepSums> const sums{{optim::StepSums{9, 2, 3, 0}}};
  OnMachine<optim::StepScalars> const scalars{{optim::StepScalars{}}};
  optim::StepRules rules;
  rules.schedule.base = 0.02F;
  given.args.master = master.data();
  given.args.states = {m.data(), v.data()};
  given.args.update = &given.update;
  given.args.gradient = gradient.data();
  given.args.segments = given.segments;
  given.args.scalars = scalars.data();
  for (int step = 0; step < 3; ++step) {
    CHECK(advance(machine().stream(), rules, sums.data(), scalars.data()) == cudaSuccess);
    CHECK(cuda::update(machine().stream(), given.args) == cudaSuccess);
  }
  auto expected = given;
  for (int step = 1; step <= 3; ++step) {
    expected.scalars = scalars_after(step);
    expected.run_here();
  }
  CHECK(testing::first_difference(master.values(), expected.master) == -1);
  CHECK(testing::first_difference(v.values(), expected.states[1]) == -1);
}

TEST_CASE("an update handles more than 2^31 elements") {
  testing::every_way();
  constexpr std::int64_t far = (std::int64_t{1} << 33) + 3;
  Case<bf16, bf16> given{5000, Numbers::ordinary};
  OnMachine<float> const master{given.master, 3}, m{given.states[0], 3}, v{given.states[1], 3};
  OnMachine<bf16> const gradient{given.gradient, 3}, parameter{given.parameter, 3};
  OnMachine<optim::StepScalars> const scalars{{given.scalars}};
  auto args = given.args;
  args.master = master.data_before(far);
  args.states = {m.data_before(far), v.data_before(far)};
  args.update = &given.update;
  args.gradient = gradient.data_before(far);
  args.parameter = parameter.data_before(far);
  args.count = far + 5000;
  std::vector<Segment> const segments{{far + 5, far + 4987, 1, 1}};
  args.segments = segments;
  args.scalars = scalars.data();
  CHECK(cuda::update(machine().stream(), args) == cudaSuccess);
  given.segments = {{5, 4987, 1, 1}};
  given.run_here();
  CHECK(testing::first_difference(master.values(), given.master) == -1);
  CHECK(testing::first_difference(parameter.values(), given.parameter) == -1);
}

}  // namespace
}  // namespace zeroth::cuda
