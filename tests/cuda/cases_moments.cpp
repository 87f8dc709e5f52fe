// SPDX-License-Identifier: Apache-2.0
/// LAMB's first pass, against the CPU's loops.
#include <tuple>
#include <vector>

#include "device/cuda_launch.hpp"
#include "device/moment_loops.hpp"
#include "machine.hpp"

namespace zeroth::cuda {
namespace {

using optim::Segment;
using testing::machine;
using testing::Numbers;
using testing::OnMachine;
using testing::random_floats;
using testing::rounded;

template <class G, class M>
struct Case {
  std::vector<M> master;
  std::vector<float> first, second, weight_squares, direction_squares;
  std::vector<G> gradient;
  optim::Update update{optim::Lamb{.weight_decay = 0.1F}};
  optim::StepScalars scalars;

  Case(std::int64_t count, Numbers numbers)
      : master{rounded<M>(random_floats(count, numbers, 1))},
        first{random_floats(count, numbers, 2)},
        second{random_floats(count, numbers, 3)},
        weight_squares(static_cast<std::size_t>(device::sum_blocks(count)), -1),
        direction_squares(weight_squares),
        gradient{rounded<G>(random_floats(count, numbers, 4))} {
    for (float& value : second) {
      value = std::fabs(value);
    }
    optim::StepRules rules;
    rules.schedule.base = 0.02F;
    optim::advance(rules, {9, 2, 3, 0}, scalars);
  }

  [[nodiscard]] device::MoveMoments args(std::vector<Segment> const& segments) {
    device::MoveMoments args;
    args.update.master = master.data();
    args.update.master_dtype = dtype_of<M>;
    args.update.states = {first.data(), second.data()};
    args.update.gradient = gradient.data();
    args.update.gradient_dtype = dtype_of<G>;
    args.update.count = std::ssize(master);
    args.update.segments = segments;
    args.update.update = &update;
    args.update.scalars = &scalars;
    args.weight_squares = weight_squares.data();
    args.direction_squares = direction_squares.data();
    return args;
  }

  /// Runs it on the machine, arrays shifted by so many elements, and on the CPU; everything must be equal.
  void check(std::vector<Segment> const& segments, std::int64_t shift = 0) {
    OnMachine<M> const their_master{master, shift};
    OnMachine<float> const their_first{first, shift}, their_second{second, shift};
    OnMachine<float> const their_weights{weight_squares}, their_directions{direction_squares};
    OnMachine<G> const their_gradient{gradient, shift};
    OnMachine<optim::StepScalars> const their_scalars{{scalars}};
    auto theirs = args(segments);
    theirs.update.master = their_master.data();
    theirs.update.states = {their_first.data(), their_second.data()};
    theirs.update.gradient = their_gradient.data();
    theirs.update.scalars = their_scalars.data();
    theirs.weight_squares = their_weights.data();
    theirs.direction_squares = their_directions.data();
    CHECK(move_moments(machine().stream(), theirs) == cudaSuccess);
    device::move_moments(args(segments));
    CHECK(testing::first_difference(their_first.values(), first) == -1);
    CHECK(testing::first_difference(their_second.values(), second) == -1);
    CHECK(testing::first_difference(their_master.values(), master) == -1);
    CHECK(testing::first_difference(their_weights.values(), weight_squares) == -1);
    CHECK(testing::first_difference(their_directions.values(), direction_squares) == -1);
  }
};

}  // namespace

TEMPLATE_TEST_CASE("moments move with the CPU's bits for every dtype", "", (std::tuple<float, float>),
                   (std::tuple<bf16, float>), (std::tuple<fp16, float>), (std::tuple<bf16, bf16>)) {
  using One = Case<std::tuple_element_t<0, TestType>, std::tuple_element_t<1, TestType>>;
  testing::every_way();
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any);
  for (std::int64_t const shift : {0, 1, 4}) {
    One{5001, numbers}.check({{0, 5001, 1, 1}}, shift);
    One{5001, numbers}.check({{0, 1, 1, 1}, {128, 256, 2, 0}, {384, 4700, 1, 3}, {4736, 5001, 1, 1}}, shift);
  }
}

TEST_CASE("moments of more segments than one launch can take move") {
  testing::every_way();
  for (int const segment_count : {79, 80, 81, 170}) {
    INFO(segment_count << " segments");
    std::vector<Segment> segments;
    for (int k = 0; k < segment_count; ++k) {
      segments.push_back({std::int64_t{128} * k, std::int64_t{128} * k + 1 + k % 128, 1, static_cast<float>(k % 3)});
    }
    Case<float, float>{std::int64_t{128} * segment_count, Numbers::ordinary}.check(segments);
  }
}

TEST_CASE("moments do not move in a step that is skipped, nor without segments") {
  testing::every_way();
  Case<bf16, float> given{1000, Numbers::any};
  given.check({});
  given.check({{0, 0, 1, 1}});
  given.scalars.skip = true;
  auto const before = given;
  given.check({{0, 1000, 1, 1}});
  CHECK(testing::same_bits(given.first, before.first));
}

TEST_CASE("trust ratios have the CPU's bits") {
  testing::every_way();
  optim::Lamb const rule{.max_coefficient = 3, .min_coefficient = 0.25F};
  for (std::int64_t const count : {0, 1, 31, 32, 33, 100}) {
    INFO(count << " parameters");
    std::vector<device::NormSums> sums(static_cast<std::size_t>(count));
    auto const values = random_floats(2 * count, Numbers::any, 9);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = {i % 7 == 0 ? 0.0 : std::fabs(static_cast<double>(values[2 * i])),
                 i % 5 == 0 ? 0.0 : std::fabs(static_cast<double>(values[2 * i + 1]))};
    }
    for (bool const skip : {false, true}) {
      optim::StepScalars scalars;
      scalars.skip = skip;
      std::vector<float> ratios(sums.size(), -1);
      OnMachine<device::NormSums> const their_sums{sums};
      OnMachine<float> const their_ratios{ratios};
      OnMachine<optim::StepScalars> const their_scalars{{scalars}};
      CHECK(trust_ratios(machine().stream(),
                         {&rule, their_scalars.data(), their_sums.data(), their_ratios.data(), count}) == cudaSuccess);
      device::trust_ratios({&rule, &scalars, sums.data(), ratios.data(), count});
      CHECK(testing::first_difference(their_ratios.values(), ratios) == -1);
    }
  }
}

}  // namespace zeroth::cuda
