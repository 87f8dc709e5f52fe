// SPDX-License-Identifier: Apache-2.0
/// Muon's kernels, against the CPU's loops.
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../optim/muon_element.hpp"
#include "device/cuda_launch.hpp"
#include "machine.hpp"
#include "zeroth/optim/muon.hpp"

namespace zeroth::cuda {
namespace {

using optim::Segment;
using testing::machine;
using testing::Numbers;
using testing::OnMachine;
using testing::random_floats;
using testing::rounded;

optim::StepScalars scalars_of_step() {
  optim::StepRules rules;
  rules.schedule.base = 0.02F;
  optim::StepScalars scalars;
  optim::advance(rules, {9, 2, 3, 0}, scalars);
  return scalars;
}

/// The inputs and outputs of one direction.
template <class G>
struct Case {
  std::vector<G> gradient;
  std::vector<float> momentum;
  std::vector<bf16> direction;
  optim::Muon rule;
  optim::StepScalars scalars = scalars_of_step();

  Case(std::int64_t count, Numbers numbers)
      : gradient{rounded<G>(random_floats(count, numbers, 1))},
        momentum{random_floats(count, numbers, 2)},
        direction{rounded<bf16>(random_floats(count, numbers, 3))} {}

  /// Runs it on the machine, arrays shifted by so many elements, and on the CPU; everything must be equal.
  void check(std::int64_t shift = 0, std::int64_t direction_shift = 0) {
    OnMachine<G> const their_gradient{gradient, shift};
    OnMachine<float> const their_momentum{momentum, shift};
    OnMachine<bf16> const their_direction{direction, direction_shift};
    OnMachine<optim::StepScalars> const their_scalars{{scalars}};
    optim::DirectionArgs args{.gradient = their_gradient.data(),
                              .gradient_dtype = dtype_of<G>,
                              .momentum = their_momentum.data(),
                              .direction = their_direction.data(),
                              .count = std::ssize(gradient),
                              .rule = &rule,
                              .scalars = their_scalars.data()};
    CHECK(cuda::direction(machine().stream(), args) == cudaSuccess);
    args.gradient = gradient.data();
    args.momentum = momentum.data();
    args.direction = direction.data();
    args.scalars = &scalars;
    optim::direction(args);
    CHECK(testing::first_difference(their_momentum.values(), momentum) == -1);
    CHECK(testing::first_difference(their_direction.values(), direction) == -1);
    CHECK(testing::same_bits(their_gradient.values(), gradient));
  }
};

}  // namespace

TEMPLATE_TEST_CASE("directions have the CPU's bits for every dtype", "", float, bf16, fp16) {
  testing::every_way();
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any);
  for (auto const& [momentum, nesterov] : {std::pair{0.95, true}, {0.95, false}, {0.25, true}, {0.0, true}}) {
    INFO("momentum " << momentum << ", nesterov " << nesterov);
    Case<TestType> given{4501, numbers};
    given.rule.momentum = momentum;
    given.rule.nesterov = nesterov;
    given.check();
  }
}

TEST_CASE("directions are right at every count and alignment") {
  testing::every_way();
  for (std::int64_t const count : {0, 1, 3, 8, 13, 1021, 2048, 4096, 4099}) {
    for (std::int64_t const shift : {0, 1, 4, 7, 8}) {
      INFO(count << " elements, shifted by " << shift);
      Case<float>{count, Numbers::ordinary}.check(shift, shift);
      Case<bf16>{count, Numbers::ordinary}.check(shift, shift + 1);  // no element at which all arrays are aligned
    }
  }
}

TEST_CASE("momenta do not move in a step that is skipped") {
  testing::every_way();
  Case<bf16> given{1000, Numbers::any};
  given.scalars.skip = true;
  auto const before = given;
  given.check();
  CHECK(testing::same_bits(given.momentum, before.momentum));
}

TEST_CASE("matrices are divided by their norm with the CPU's bits") {
  testing::every_way();
  for (auto const numbers : {Numbers::ordinary, Numbers::any}) {
    for (std::int64_t const count : {1, 7, 8, 4096, 5003}) {
      for (auto const& [shift, in_place, skip] :
           {std::tuple{0, true, false}, {0, false, false}, {3, true, false}, {1, false, false}, {0, true, true}}) {
        INFO(count << " elements, shifted by " << shift << ", in place " << in_place << ", skipped " << skip);
        auto const matrix = rounded<bf16>(random_floats(count, numbers, 7));
        optim::ExactSum sum;
        for (auto const each : matrix) {
          sum += static_cast<double>(to_float(each)) * static_cast<double>(to_float(each));
        }
        auto scalars = scalars_of_step();
        scalars.skip = skip;
        OnMachine<bf16> const theirs{matrix, shift};
        OnMachine<bf16> const elsewhere{std::vector<bf16>(matrix.size())};
        OnMachine<optim::ExactSum> const their_sum{{sum}};
        OnMachine<optim::StepScalars> const their_scalars{{scalars}};
        auto const& result = in_place ? theirs : elsewhere;
        CHECK(normalise(machine().stream(),
                        {theirs.data(), their_sum.data(), result.data(), count, their_scalars.data()}) == cudaSuccess);
        std::vector<bf16> expected;
        float const norm = optim::matrix_norm(sum.value());
        for (auto const each : matrix) {
          expected.push_back(from_float<bf16>(skip ? 0.0F : to_float(each) / norm));
        }
        CHECK(testing::first_difference(result.values(), expected) == -1);
      }
    }
  }
}

TEST_CASE("matrices of zeros stay zeros") {
  testing::every_way();
  std::vector<bf16> const zeros(100);
  OnMachine<bf16> const matrix{zeros};
  OnMachine<optim::ExactSum> const sum{{optim::ExactSum{}}};
  OnMachine<optim::StepScalars> const scalars{{scalars_of_step()}};
  CHECK(normalise(machine().stream(), {matrix.data(), sum.data(), matrix.data(), 100, scalars.data()}) == cudaSuccess);
  CHECK(testing::first_difference(matrix.values(), zeros) == -1);
}

/// Parameters of fp32 are the masters.
TEMPLATE_TEST_CASE("an update along directions has the CPU's bits", "", (std::pair<float, float>),
                   (std::pair<float, bf16>), (std::pair<float, fp16>), (std::pair<bf16, float>)) {
  using M = typename TestType::first_type;
  using P = typename TestType::second_type;
  constexpr bool has_parameter = !std::is_same_v<P, float>;
  constexpr std::int64_t count = 4501;
  testing::every_way();
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any);
  optim::Update const update{optim::Muon{.weight_decay = 0.1F}, 0x123456789abcdef};
  std::vector<Segment> const segments{{0, 3, 2, 0, 0}, {8, 2100, 0.5F, 1, 8}, {2104, count, 1, 3, 2104}};
  for (auto const& [shift, skip] : {std::pair{0, false}, {1, false}, {8, false}, {0, true}}) {
    INFO("shifted by " << shift << ", skipped " << skip);
    auto master = rounded<M>(random_floats(count, numbers, 1));
    auto momentum = random_floats(count, numbers, 2);
    auto const direction = rounded<bf16>(random_floats(count, numbers, 3));
    auto parameter = rounded<P>(random_floats(count, numbers, 4));
    auto scalars = scalars_of_step();
    scalars.skip = skip;
    auto const args_of = [&](M* masters, float* momenta, bf16 const* directions, P* parameters,
                             optim::StepScalars const* on) {
      optim::UpdateArgs args;
      args.master = masters;
      args.master_dtype = dtype_of<M>;
      args.states = {momenta};
      args.gradient = directions;
      args.gradient_dtype = Dtype::bf16;
      args.parameter = has_parameter ? parameters : nullptr;
      args.parameter_dtype = dtype_of<P>;
      args.count = count;
      args.segments = segments;
      args.update = &update;
      args.scalars = on;
      return args;
    };
    OnMachine<M> const masters{master, shift};
    OnMachine<float> const momenta{momentum, shift};
    OnMachine<bf16> const directions{direction, shift};
    OnMachine<P> const parameters{parameter, shift};
    OnMachine<optim::StepScalars> const their_scalars{{scalars}};
    CHECK(cuda::update(machine().stream(), args_of(masters.data(), momenta.data(), directions.data(), parameters.data(),
                                                   their_scalars.data())) == cudaSuccess);
    optim::update(args_of(master.data(), momentum.data(), direction.data(), parameter.data(), &scalars));
    CHECK(testing::first_difference(masters.values(), master) == -1);
    CHECK(testing::first_difference(parameters.values(), parameter) == -1);
    CHECK(testing::same_bits(momenta.values(), momentum));
  }
}

}  // namespace zeroth::cuda
