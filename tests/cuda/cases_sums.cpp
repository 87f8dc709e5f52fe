// SPDX-License-Identifier: Apache-2.0
/// The sum over ranks, the sum of block sums and the scalars of a step, against the CPU's.
#include <cstring>
#include <random>
#include <tuple>

#include "device/cuda_launch.hpp"
#include "device/element_loops.hpp"
#include "device/rank_fold.hpp"
#include "machine.hpp"

namespace zeroth::cuda {
namespace {

using testing::machine;
using testing::Numbers;
using testing::OnMachine;
using testing::random_floats;
using testing::random_values;
using testing::same_bits;

template <class T, Dtype value>
struct Type {
  using type = T;
  static constexpr Dtype dtype = value;
};

template <class T>
bool equal(std::vector<T> const& a, std::vector<T> const& b) {
  if constexpr (Element<T>) {
    return testing::first_difference(a, b) == -1;
  } else {
    return same_bits(a, b);
  }
}

enum class Outputs { one, two, in_place };

/// One fold on the machine and on the CPU. `far` is added to all indices of elements.
template <class T>
void check_rank_fold(Dtype dtype, int ranks, Outputs outputs, std::int64_t shift, std::int64_t first,
                     std::int64_t count, Numbers numbers, std::int64_t far = 0, Reduce reduce = Reduce::sum) {
  constexpr std::int64_t length = 9001;
  std::vector<std::vector<T>> inputs;
  std::vector<std::unique_ptr<OnMachine<T>>> their_inputs, their_outputs;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.push_back(random_values<T>(length, static_cast<std::uint32_t>(rank), numbers));
    their_inputs.push_back(std::make_unique<OnMachine<T>>(inputs.back(), shift));
  }
  auto results = outputs == Outputs::in_place
                     ? inputs
                     : std::vector<std::vector<T>>(outputs == Outputs::one ? 1 : 2, std::vector<T>(length, T{}));
  for (auto const& result : results) {
    their_outputs.push_back(std::make_unique<OnMachine<T>>(result, shift));
  }
  auto const& written = outputs == Outputs::in_place ? their_inputs : their_outputs;

  RankFold args{};
  std::vector<void*> to;
  std::vector<void const*> from;
  for (auto& result : results) {
    args.outputs[args.output_count] = written[static_cast<std::size_t>(args.output_count)]->data_before(far);
    ++args.output_count;
    to.push_back(result.data());
  }
  auto const sources = outputs == Outputs::in_place ? results : inputs;
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    args.inputs[args.input_count++] = their_inputs[rank]->data_before(far);
    from.push_back(outputs == Outputs::in_place ? results[rank].data() : inputs[rank].data());
  }
  args.reduce = reduce;
  args.factor = 0.3;
  args.dtype = dtype;
  args.first = far + first;
  args.count = count;
  CHECK(rank_fold(machine().stream(), args) == cudaSuccess);
  device::rank_fold(reduce, to.data(), static_cast<int>(to.size()), from.data(), ranks, dtype, first, count,
                    args.factor);
  for (std::size_t k = 0; k < results.size(); ++k) {
    CHECK(equal(written[k]->values(), results[k]));
  }
}

TEMPLATE_TEST_CASE("rank_fold gives the CPU's bits for every dtype", "", (Type<float, Dtype::fp32>),
                   (Type<bf16, Dtype::bf16>), (Type<fp16, Dtype::fp16>), (Type<double, Dtype::fp64>),
                   (Type<std::int32_t, Dtype::int32>), (Type<std::int64_t, Dtype::int64>),
                   (Type<std::uint8_t, Dtype::byte>)) {
  using T = typename TestType::type;
  testing::every_way();
  for (int const ranks : {1, 2, 3, 4, 7, RankFold::most_ranks}) {
    for (Outputs const outputs : {Outputs::one, Outputs::two, Outputs::in_place}) {
      INFO(ranks << " ranks");
      check_rank_fold<T>(TestType::dtype, ranks, outputs, 0, 0, 9001, Numbers::ordinary);
      check_rank_fold<T>(TestType::dtype, ranks, outputs, 0, 17, 5000, Numbers::any);
    }
  }
  for (std::int64_t const count : {0, 1, 2, 15, 16, 17, 1024, 4096, 8192, 8193}) {
    for (std::int64_t const first : {0, 1, 16}) {
      for (std::int64_t const shift : {0, 1}) {
        INFO(count << " elements from " << first << ", shifted by " << shift);
        check_rank_fold<T>(TestType::dtype, 3, Outputs::two, shift, first, count, Numbers::any);
      }
    }
  }
}

TEMPLATE_TEST_CASE("a maximum over ranks has the CPU's bits for every floating dtype", "", (Type<float, Dtype::fp32>),
                   (Type<bf16, Dtype::bf16>), (Type<fp16, Dtype::fp16>), (Type<double, Dtype::fp64>)) {
  using T = typename TestType::type;
  testing::every_way();
  for (int const ranks : {2, 3, RankFold::most_ranks}) {
    for (Outputs const outputs : {Outputs::two, Outputs::in_place}) {
      INFO(ranks << " ranks");
      check_rank_fold<T>(TestType::dtype, ranks, outputs, 0, 17, 5000, Numbers::ordinary, 0, Reduce::maximum);
      check_rank_fold<T>(TestType::dtype, ranks, outputs, 1, 17, 5000, Numbers::any, 0, Reduce::maximum);  // NaNs, too
    }
  }
}

TEMPLATE_TEST_CASE("a sum over ranks of elements times a factor has the CPU's bits for every floating dtype", "",
                   (Type<float, Dtype::fp32>), (Type<bf16, Dtype::bf16>), (Type<fp16, Dtype::fp16>),
                   (Type<double, Dtype::fp64>)) {
  using T = typename TestType::type;
  testing::every_way();
  for (int const ranks : {1, 2, 3, RankFold::most_ranks}) {
    for (Outputs const outputs : {Outputs::two, Outputs::in_place}) {
      INFO(ranks << " ranks");
      check_rank_fold<T>(TestType::dtype, ranks, outputs, 0, 17, 5000, Numbers::ordinary, 0, Reduce::premul_sum);
      check_rank_fold<T>(TestType::dtype, ranks, outputs, 1, 17, 5000, Numbers::any, 0, Reduce::premul_sum);
    }
  }
}

template <class T>
void check_rank_fold_into(Dtype dtype, int ranks, std::int64_t shift, std::int64_t first, std::int64_t count,
                          bool accumulate) {
  constexpr std::int64_t length = 9001;
  std::vector<std::vector<T>> inputs;
  std::vector<std::unique_ptr<OnMachine<T>>> their_inputs;
  RankFold args{};
  std::vector<void const*> from;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.push_back(random_values<T>(length, static_cast<std::uint32_t>(rank), Numbers::any));
    their_inputs.push_back(std::make_unique<OnMachine<T>>(inputs.back(), shift));
    args.inputs[args.input_count++] = their_inputs.back()->data();
  }
  for (auto const& input : inputs) {
    from.push_back(input.data() + first);
  }
  auto sums = random_values<float>(length, 99, Numbers::ordinary);
  OnMachine<float> const their_sums{sums, shift};
  args.dtype = dtype;
  args.first = first;
  args.count = count;
  args.sums = their_sums.data();
  args.accumulate = accumulate;
  CHECK(rank_fold(machine().stream(), args) == cudaSuccess);
  device::rank_fold_into(sums.data() + first, accumulate, from.data(), ranks, dtype, count);
  CHECK(equal(their_sums.values(), sums));
}

TEMPLATE_TEST_CASE("rank_fold into sums gives the CPU's bits", "", (Type<float, Dtype::fp32>),
                   (Type<bf16, Dtype::bf16>), (Type<fp16, Dtype::fp16>)) {
  using T = typename TestType::type;
  testing::every_way();
  for (int const ranks : {1, 2, 7, RankFold::most_ranks}) {
    for (bool const accumulate : {false, true}) {
      check_rank_fold_into<T>(TestType::dtype, ranks, 0, 0, 9001, accumulate);
      check_rank_fold_into<T>(TestType::dtype, ranks, 1, 17, 5000, accumulate);
    }
  }
}

TEST_CASE("rank_fold handles more than 2^31 elements") {
  testing::every_way();
  constexpr std::int64_t far = (std::int64_t{1} << 32) + 48;
  check_rank_fold<bf16>(Dtype::bf16, 2, Outputs::in_place, 0, 3, 5000, Numbers::ordinary, far);
  check_rank_fold<std::uint8_t>(Dtype::byte, 2, Outputs::one, 5, 3, 5000, Numbers::ordinary, far);
}

TEST_CASE("rank_fold to no output reads and writes nothing") {
  testing::every_way();
  RankFold args{};
  args.input_count = 1;
  args.count = 10;
  CHECK(rank_fold(machine().stream(), args) == cudaSuccess);
  OnMachine<float> const memory{{1.0F}};
  CHECK(memory.values() == std::vector<float>{1.0F});  // and the stream continues
}

auto fields_of(optim::StepSums const& sums) {
  return std::tuple{sums.sum_of_squares.value(), sums.loss.value(), sums.weight.value(), sums.stop, sums.call_hash};
}

TEST_CASE("collect adds up block sums as the CPU does") {
  testing::every_way();
  for (std::int64_t const count : {0, 1, 31, 511, 512, 513, 2048, 140011}) {
    INFO(count << " sums");
    auto values = random_floats(count, Numbers::any_finite, 77);
    for (float& value : values) {
      value = std::fabs(value);
    }
    OnMachine<float> const block_sums{values};
    OnMachine<optim::ExactSum> const sum{{optim::ExactSum{7}}};
    CHECK(collect(machine().stream(), block_sums.data(), count, sum.data()) == cudaSuccess);
    auto const expected = device::total_of(values.data(), count);
    auto const got = sum.values()[0];
    CHECK(std::memcmp(&got, &expected, sizeof(got)) == 0);
  }
}

TEST_CASE("add_loss adds weighted means in fp64") {
  testing::every_way();
  OnMachine<float> const mean{{2.25F}};
  OnMachine<optim::StepSums> const contribution{{optim::StepSums{3, 1.5, 4, 1, 12345}}};
  CHECK(add_loss(machine().stream(), {mean.data(), 0.1}, contribution.data()) == cudaSuccess);
  CHECK(fields_of(contribution.values()[0]) == fields_of({3, 1.5 + 0.1 * 2.25, 4, 1, 12345}));
}

TEST_CASE("collect passes values through that are not finite") {
  testing::every_way();
  for (float const bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(3000, 1.0F);
    values[2999] = bad;
    OnMachine<float> const block_sums{values};
    OnMachine<optim::ExactSum> const sum{{optim::ExactSum{}}};
    CHECK(collect(machine().stream(), block_sums.data(), 3000, sum.data()) == cudaSuccess);
    CHECK_FALSE(std::isfinite(sum.values()[0].value()));
  }
}

auto fields_of(optim::StepScalars const& s) {
  auto const bits = [](float value) { return std::isnan(value) ? 0x7fffffffU : std::bit_cast<std::uint32_t>(value); };
  return std::tuple{s.applied,
                    bits(s.loss_scale.scale),
                    s.loss_scale.hysteresis_left,
                    s.loss_scale.iteration,
                    s.loss_scale.last_overflow,
                    s.loss_scale.exhausted,
                    bits(s.gradient_scale),
                    bits(s.learning_rate),
                    bits(s.bias_correction1),
                    bits(s.bias_correction2_sqrt),
                    s.skip,
                    s.nonfinite,
                    s.stop,
                    bits(s.loss),
                    bits(s.gradient_norm),
                    bits(s.loss_scale_used)};
}

TEST_CASE("advance gives the CPU's bits: schedules, clipping, overflows, steps without weight") {
  testing::every_way();
  auto const kind = GENERATE(
      optim::ScheduleKind::constant, optim::ScheduleKind::warmup, optim::ScheduleKind::warmup_decay,
      optim::ScheduleKind::warmup_cosine, optim::ScheduleKind::one_cycle, optim::ScheduleKind::range_test,
      optim::ScheduleKind::constant_factor, optim::ScheduleKind::linear_factor, optim::ScheduleKind::cosine_annealing,
      optim::ScheduleKind::step, optim::ScheduleKind::multi_step, optim::ScheduleKind::exponential);
  auto const warmup = GENERATE(optim::WarmupKind::logarithmic, optim::WarmupKind::linear);
  optim::StepRules rules;
  rules.schedule.kind = kind;
  rules.schedule.warmup = warmup;
  rules.schedule.warmup_steps = 30;
  rules.schedule.total_steps = 100;
  bool const stairs = warmup == optim::WarmupKind::linear;
  rules.schedule.cycle_min = 1e-4F;
  rules.schedule.cycle_max = 1e-3F;
  rules.schedule.cycle_first = 37;
  rules.schedule.cycle_second = 23;
  rules.schedule.cycle_first_stairs = stairs ? 5 : 0;
  rules.schedule.cycle_second_stairs = stairs ? 4 : 0;
  rules.schedule.decay_interval = 7;
  rules.schedule.decay_rate = 0.3F;
  rules.schedule.range_interval = 11;
  rules.schedule.range_staircase = stairs;
  rules.schedule.start_factor = 0.1;
  rules.schedule.end_factor = 0.7;
  rules.schedule.eta_min = 1e-5;
  rules.schedule.gamma = stairs ? 0.9 : 1.1;
  rules.schedule.step_size = 13;
  rules.schedule.milestones = {40, 20, 40, 90};
  rules.schedule.milestone_count = 4;
  rules.clip = 1;
  rules.gradient_prescale = 0.25F;
  rules.loss_scale.dynamic = true;
  rules.loss_scale.initial = 65536;
  rules.loss_scale.window = 7;
  optim::StepScalars scalars;
  scalars.loss_scale = optim::initial_state(rules.loss_scale);
  OnMachine<optim::StepScalars> const theirs{{scalars}};
  std::mt19937 random{99};
  std::exponential_distribution<double> squares{1e-9};
  int wrong = 0;
  for (int step = 0; step < 150; ++step) {
    optim::StepSums sums{squares(random), 3.3 * step, step % 40 == 39 ? 0.0 : 8.0, step == 120 ? 1.0 : 0.0, 5};
    if (step % 11 == 10) {
      sums.sum_of_squares = step % 2 == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
    }
    rules.has_learning_rate = step == 60;
    rules.given_learning_rate = 0.125F;
    rules.loss_scale_used = step % 5 == 3 ? 2048.0F : 0.0F;
    OnMachine<optim::StepSums> const total{{sums}};
    CHECK(advance(machine().stream(), rules, total.data(), theirs.data()) == cudaSuccess);
    optim::advance(rules, sums, scalars);
    wrong += fields_of(theirs.values()[0]) == fields_of(scalars) ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(scalars.applied > 100);
}

}  // namespace
}  // namespace zeroth::cuda
