// SPDX-License-Identifier: Apache-2.0
#include "device/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/isa.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::device {
namespace {

using Catch::Contains;
using testing::Numbers;
using testing::random_floats;

/// A device and a stream to run kernels on.
struct Machine {
  explicit Machine(Overlap overlap = Overlap::off) : stream{device->make_stream("kernels", overlap)} {}
  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Stream> stream;
  Kernels& kernels = device->kernels();
};

/// Computes block sums as the header of the loops describes: 32 lanes in order, then halves onto halves.
template <class T>
std::vector<float> block_sums_of(std::vector<T> const& values, std::int64_t begin, std::int64_t count) {
  std::vector<float> sums;
  for (std::int64_t first = 0; first < count; first += sum_block_count) {
    float lane[32] = {};
    for (std::int64_t i = first; i < std::min(first + sum_block_count, count); ++i) {
      float const value = to_float(values[static_cast<std::size_t>(begin + i)]);
      float& sum = lane[(i - first) % 32];
      sum = sum + value * value;
    }
    for (int half = 16; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) {
        lane[i] = lane[i] + lane[i + half];
      }
    }
    sums.push_back(lane[0]);
  }
  return sums;
}

TEST_CASE("fill and copy move bytes, in stream order") {
  Machine machine{Overlap::on};
  std::vector<std::uint8_t> a(1001, 1), b(1001, 2);
  machine.kernels.fill(*machine.stream, a.data(), 1000, 0xff);
  machine.kernels.copy(*machine.stream, b.data() + 1, a.data(), 1000);
  machine.kernels.fill(*machine.stream, a.data(), 0, 3);
  machine.kernels.copy(*machine.stream, a.data(), b.data(), 0);
  machine.stream->synchronize();
  CHECK(std::all_of(a.begin(), a.end() - 1, [](std::uint8_t value) { return value == 0xff; }));
  CHECK(a.back() == 1);
  CHECK(b.front() == 2);
  CHECK(std::equal(b.begin() + 1, b.end(), a.begin()));
}

TEST_CASE("bytes of 0xff are NaN in every dtype, so fill() can poison memory") {
  Machine machine;
  std::vector<float> wide(3);
  std::vector<bf16> brain(3);
  std::vector<fp16> half(3);
  machine.kernels.fill(*machine.stream, wide.data(), 12, 0xff);
  machine.kernels.fill(*machine.stream, brain.data(), 6, 0xff);
  machine.kernels.fill(*machine.stream, half.data(), 6, 0xff);
  CHECK(std::isnan(wide[2]));
  CHECK(std::isnan(to_float(brain[2])));
  CHECK(std::isnan(to_float(half[2])));
}

TEMPLATE_TEST_CASE("convert rounds each element, the same on every instruction set", "", (std::pair<float, bf16>),
                   (std::pair<float, fp16>), (std::pair<bf16, float>), (std::pair<fp16, float>),
                   (std::pair<bf16, fp16>), (std::pair<fp16, bf16>), (std::pair<float, float>),
                   (std::pair<bf16, bf16>)) {
  using From = typename TestType::first_type;
  using To = typename TestType::second_type;
  auto const source = testing::rounded<From>(random_floats(5003, Numbers::any, 11));
  std::vector<To> expected;
  for (From const value : source) {
    expected.push_back(from_float<To>(to_float(value)));
  }
  Machine machine;
  for (Isa const isa : testing::all_isas()) {
    testing::WithIsa const with{isa};
    std::vector<To> got(source.size());
    machine.kernels.convert(*machine.stream, got.data(), dtype_of<To>, source.data(), dtype_of<From>, 5003);
    INFO(testing::name_of(isa));
    CHECK(testing::first_difference(got, expected) == -1);
  }
}

TEMPLATE_TEST_CASE("widening and rounding of all 16-bit patterns is the same on every instruction set", "", bf16,
                   fp16) {
  std::vector<TestType> source;
  for (int bits = 0; bits < 65536; ++bits) {
    source.push_back({static_cast<std::uint16_t>(bits)});
  }
  std::vector<float> expected;
  for (TestType const value : source) {
    expected.push_back(to_float(value));
  }
  Machine machine;
  for (Isa const isa : testing::all_isas()) {
    testing::WithIsa const with{isa};
    std::vector<float> wide(source.size());
    std::vector<TestType> back(source.size());
    machine.kernels.convert(*machine.stream, wide.data(), Dtype::fp32, source.data(), dtype_of<TestType>, 65536);
    machine.kernels.convert(*machine.stream, back.data(), dtype_of<TestType>, wide.data(), Dtype::fp32, 65536);
    INFO(testing::name_of(isa));
    CHECK(testing::first_difference(wide, expected) == -1);
    CHECK(testing::first_difference(back, source) == -1);
  }
}

struct Range {
  std::int64_t begin, count;
};

TEMPLATE_TEST_CASE("reduce_epilogue stores or adds, rounds once, and sums squares of what is stored", "",
                   (std::pair<float, float>), (std::pair<bf16, float>), (std::pair<fp16, float>),
                   (std::pair<bf16, bf16>), (std::pair<fp16, fp16>), (std::pair<float, bf16>),
                   (std::pair<float, fp16>)) {
  using From = typename TestType::first_type;
  using To = typename TestType::second_type;
  constexpr std::int64_t count = 5000;
  bool const accumulate = GENERATE(false, true);
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any_finite);
  auto const sums = GENERATE(Range{0, count}, Range{0, 0}, Range{0, 1024}, Range{7, 1025}, Range{3000, 2000});
  auto const source = testing::rounded<From>(random_floats(count, numbers, 21));
  auto const before = testing::rounded<To>(random_floats(count, numbers, 22));
  std::vector<To> expected;
  for (std::size_t i = 0; i < source.size(); ++i) {
    expected.push_back(from_float<To>(accumulate ? to_float(before[i]) + to_float(source[i]) : to_float(source[i])));
  }
  auto const expected_sums = block_sums_of(expected, sums.begin, sums.count);

  Machine machine;
  for (Isa const isa : testing::all_isas()) {
    testing::WithIsa const with{isa};
    auto got = before;
    std::vector<float> got_sums(static_cast<std::size_t>(sum_blocks(sums.count)) + 1, -1.0F);
    ReduceEpilogue args;
    args.source = source.data();
    args.source_dtype = dtype_of<From>;
    args.destination = got.data();
    args.destination_dtype = dtype_of<To>;
    args.count = count;
    args.accumulate = accumulate;
    args.block_sums = got_sums.data();
    args.sums_begin = sums.begin;
    args.sums_count = sums.count;
    machine.kernels.reduce_epilogue(*machine.stream, args);
    INFO(testing::name_of(isa));
    CHECK(testing::first_difference(got, expected) == -1);
    CHECK(got_sums.back() == -1);  // no writes after the last block
    got_sums.pop_back();
    CHECK(testing::first_difference(got_sums, expected_sums) == -1);

    got = before;
    args.block_sums = nullptr;
    machine.kernels.reduce_epilogue(*machine.stream, args);
    CHECK(testing::first_difference(got, expected) == -1);
  }
}

TEST_CASE("reduce_epilogue in place reads sums and writes nothing") {
  auto values = random_floats(2100, Numbers::ordinary, 5);
  auto const before = values;
  std::vector<float> sums(17);
  ReduceEpilogue args;
  args.source = args.destination = values.data();
  args.count = args.sums_count = 2100;
  args.block_sums = sums.data();
  Machine machine;
  machine.kernels.reduce_epilogue(*machine.stream, args);
  CHECK(values == before);
  CHECK(sums == block_sums_of(values, 0, 2100));
  double const exact = std::transform_reduce(before.begin(), before.end(), 0.0, std::plus{}, [](float value) {
    return static_cast<double>(value) * static_cast<double>(value);
  });
  CHECK(std::accumulate(sums.begin(), sums.end(), 0.0) == Approx(exact).epsilon(1e-6));
}

TEST_CASE("zeros behind the elements do not change the last block's sum") {
  // This lets stages pad slices differently and still agree.
  auto values = random_floats(1500, Numbers::ordinary, 6);
  auto padded = values;
  padded.resize(2048, 0.0F);
  Machine machine;
  std::vector<float> sums(12), padded_sums(12);
  ReduceEpilogue args;
  args.source = args.destination = values.data();
  args.count = args.sums_count = 1500;
  args.block_sums = sums.data();
  machine.kernels.reduce_epilogue(*machine.stream, args);
  args.source = args.destination = padded.data();
  args.count = args.sums_count = 1536;
  args.block_sums = padded_sums.data();
  machine.kernels.reduce_epilogue(*machine.stream, args);
  CHECK(sums == padded_sums);
}

TEST_CASE("values that are not finite reach the block sums") {
  Machine machine;
  for (float const bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (Isa const isa : testing::all_isas()) {
      testing::WithIsa const with{isa};
      for (std::size_t const at : {std::size_t{0}, std::size_t{127}, std::size_t{130}}) {
        std::vector<float> values(131, 1.0F), sums(2);
        values[at] = bad;
        ReduceEpilogue args;
        args.source = args.destination = values.data();
        args.count = args.sums_count = 131;
        args.block_sums = sums.data();
        machine.kernels.reduce_epilogue(*machine.stream, args);
        CHECK_FALSE(std::isfinite(sums[at / 128]));
        CHECK(std::isfinite(sums[1 - at / 128]));
      }
    }
  }
}

TEST_CASE("collect adds block sums exactly") {
  Machine machine{Overlap::on};
  std::vector<float> blocks{1e30F, 1, 0x1p-149F, 1, 0};
  optim::ExactSum sum{7};
  optim::ExactSum expected;
  for (float const each : blocks) {
    expected += static_cast<double>(each);
  }
  for (int turn = 0; turn < 3; ++turn) {
    machine.kernels.collect(*machine.stream, blocks, &sum);
    machine.stream->synchronize();
    CHECK(std::memcmp(&sum, &expected, sizeof(sum)) == 0);
    std::rotate(blocks.begin(), blocks.begin() + 1, blocks.end());
  }
  machine.kernels.collect(*machine.stream, {}, &sum);
  machine.stream->synchronize();
  CHECK(sum.value() == 0);
}

TEST_CASE("add_loss adds the mean at the time it runs, times its weight") {
  Machine machine{Overlap::on};
  optim::StepSums sums{3, 1.5, 4, 1};
  float mean = 0;
  float const later = 2.25F;
  machine.kernels.copy(*machine.stream, &mean, &later, sizeof(mean));
  machine.kernels.add_loss(*machine.stream, {&mean, 0.5}, &sums);
  machine.kernels.add_loss(*machine.stream, {&mean, 2}, &sums);
  machine.stream->synchronize();
  CHECK(sums.loss.value() == 1.5 + 0.5 * 2.25 + 2 * 2.25);
  CHECK(sums.sum_of_squares.value() == 3);
  CHECK(sums.weight.value() == 4);
  CHECK(sums.stop == 1);
}

TEST_CASE("collect's sum does not depend on how values are divided and ordered") {
  Machine machine;
  for (std::int64_t const count : {1, 1000, 1024, 5003, 70'001}) {
    auto values = random_floats(count, Numbers::any_finite, 12);
    std::ranges::transform(values, values.begin(), [](float value) { return std::fabs(value); });
    optim::ExactSum whole, parts;
    machine.kernels.collect(*machine.stream, values, &whole);
    std::ranges::shuffle(values, std::mt19937{5});
    auto const first = values.size() / 3;
    for (auto const part : {std::span{values}.first(first), std::span{values}.subspan(first)}) {
      optim::ExactSum of_part;
      machine.kernels.collect(*machine.stream, part, &of_part);
      parts += of_part;
    }
    CHECK(std::memcmp(&whole, &parts, sizeof(whole)) == 0);
  }
}

TEST_CASE("update uses the scalars that advance wrote earlier on the stream") {
  Machine machine{Overlap::on};
  optim::StepRules rules;
  rules.schedule.base = 0.5F;
  optim::Update const adam{optim::Adam{.epsilon = 0}};
  optim::StepSums sums{4, 3, 1, 0};
  optim::StepScalars scalars;
  std::vector<float> master{1, 1}, m(2), v(2);
  std::vector<bf16> const gradient{from_float<bf16>(2), from_float<bf16>(-2)};
  std::vector<optim::Segment> const segments{{0, 2, 1, 1}};
  optim::UpdateArgs args;
  args.master = master.data();
  args.states = {m.data(), v.data()};
  args.gradient = gradient.data();
  args.gradient_dtype = Dtype::bf16;
  args.count = 2;
  args.segments = segments;
  args.update = &adam;
  args.scalars = &scalars;
  machine.kernels.advance(*machine.stream, rules, &sums, &scalars);
  machine.kernels.update(*machine.stream, args);
  machine.stream->synchronize();
  CHECK(scalars.applied == 1);
  CHECK(scalars.gradient_norm == 2);
  CHECK(scalars.loss == 3);
  CHECK(master[0] == Approx(0.5));
  CHECK(master[1] == Approx(1.5));
}

TEST_CASE("an update by the host writes all parameters with any number of threads, and old values if it skips") {
  constexpr std::int64_t count = 1000;
  optim::Update const adam{optim::Adam{.weight_decay = 0.1F}};
  optim::StepScalars scalars;
  scalars.applied = 1;
  scalars.gradient_scale = 1;
  scalars.learning_rate = 0.5F;
  auto const initial = random_floats(count, Numbers::ordinary, 1);
  auto const gradient = random_floats(count, Numbers::ordinary, 2);
  std::vector<optim::Segment> const segments{{10, 300, 1, 1, 128}, {300, 310, 2, 0, 512}, {500, 990, 1, 1, 640}};
  auto const updated = [&](int threads, bool skips) {
    auto master = initial;
    std::vector<float> m(count, 0.5F), v(count, 0.25F);
    std::vector<bf16> parameters(count, from_float<bf16>(9));
    scalars.skip = skips;
    std::vector<std::vector<optim::Segment>> of_shares;
    std::vector<optim::UpdateArgs> shares;
    auto const most = (count + threads - 1) / threads;
    for (std::int64_t first = 0; first < count; first += most) {
      auto const end = std::min(first + most, count);
      auto& own = of_shares.emplace_back();
      for (auto segment : segments) {
        auto const begin = std::max(segment.begin, first);
        segment.element += begin - segment.begin;
        segment.end = std::min(segment.end, end) - first;
        segment.begin = begin - first;
        if (segment.begin < segment.end) {
          own.push_back(segment);
        }
      }
      optim::UpdateArgs args;
      args.master = &master[static_cast<std::size_t>(first)];
      args.states = {&m[static_cast<std::size_t>(first)], &v[static_cast<std::size_t>(first)]};
      args.gradient = &gradient[static_cast<std::size_t>(first)];
      args.parameter = &parameters[static_cast<std::size_t>(first)];
      args.parameter_dtype = Dtype::bf16;
      args.count = end - first;
      args.segments = own;
      args.update = &adam;
      args.scalars = &scalars;
      shares.push_back(args);
    }
    UpdateThreads team{threads};
    HostUpdate const update{shares, &team};
    Machine machine{Overlap::on};
    machine.kernels.update_on_host(*machine.stream, update);
    machine.stream->synchronize();
    return std::pair{master, parameters};
  };
  auto const is_updated = [&](std::size_t i) { return (i >= 10 && i < 310) || (i >= 500 && i < 990); };
  for (int const threads : {1, 2, 5}) {
    INFO(threads << " threads");
    auto const [master, parameters] = updated(threads, false);
    auto const [kept, rounded] = updated(threads, true);
    CHECK(master == updated(1, false).first);
    CHECK(kept == initial);
    for (std::size_t i = 0; i < master.size(); ++i) {
      CHECK((master[i] != initial[i]) == is_updated(i));
      CHECK(to_float(parameters[i]) == (is_updated(i) ? to_float(from_float<bf16>(master[i])) : 0));
      CHECK(to_float(rounded[i]) == to_float(from_float<bf16>(initial[i])));
    }
  }
}

TEST_CASE("kernels reject invalid arguments by name") {
  Machine machine;
  auto& kernels = machine.kernels;
  auto& stream = *machine.stream;
  float value = 0;
  CHECK_THROWS_WITH(kernels.fill(stream, &value, -4, 0), Contains("fill") && Contains("-4"));
  CHECK_THROWS_WITH(kernels.copy(stream, &value, &value, -1), Contains("copy") && Contains("-1"));
  CHECK_THROWS_WITH(kernels.convert(stream, &value, Dtype::int32, &value, Dtype::fp32, 1),
                    Contains("convert") && Contains("int32") && Contains("bf16"));
  CHECK_THROWS_WITH(kernels.convert(stream, &value, Dtype::fp32, &value, Dtype::byte, 1), Contains("byte"));
  ReduceEpilogue epilogue;
  epilogue.count = 10;
  epilogue.block_sums = &value;
  epilogue.sums_begin = 8;
  epilogue.sums_count = 3;
  CHECK_THROWS_WITH(kernels.reduce_epilogue(stream, epilogue), Contains("10 elements"));
  epilogue.sums_count = 0;
  epilogue.destination_dtype = Dtype::fp64;
  CHECK_THROWS_WITH(kernels.reduce_epilogue(stream, epilogue), Contains("fp64"));
  std::vector<optim::Segment> segments{{0, 5, 1, 1}, {4, 6, 1, 1}};
  optim::UpdateArgs args;
  args.count = 6;
  args.segments = segments;
  CHECK_THROWS_WITH(kernels.update(stream, args), Contains("[4, 6)"));
  segments[1] = {5, 7, 1, 1};
  CHECK_THROWS_WITH(kernels.update(stream, args), Contains("[5, 7)") && Contains("6"));
  args.segments = {};
  args.states_dtype = Dtype::bf16;
  CHECK_THROWS_WITH(kernels.update(stream, args), Contains("states are bf16 beside masters of fp32"));
  args.master_dtype = Dtype::fp16;
  CHECK_THROWS_WITH(kernels.update(stream, args), Contains("masters are fp16, must be fp32 or bf16"));
  args.master_dtype = Dtype::bf16;
  args.parameter = &value;
  CHECK_THROWS_WITH(kernels.update(stream, args), Contains("masters of bf16") && Contains("`parameter` must be null"));
  args.parameter = nullptr;
  CHECK_THROWS_WITH(kernels.update(stream, args), Contains("gradients are fp32 beside masters of bf16, must be bf16"));
  args = {};
  args.parameter = &value;
  CHECK_THROWS_WITH(kernels.update(stream, args), Contains("parameters of fp32") && Contains("must be null"));
  stream.synchronize();  // nothing was enqueued, nothing failed
}

}  // namespace
}  // namespace zeroth::device
