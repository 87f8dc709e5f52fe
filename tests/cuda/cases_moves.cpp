// SPDX-License-Identifier: Apache-2.0
/// Conversions and the reduction's epilogue, against the CPU's loops.
#include <bit>
#include <utility>

#include "device/cuda_launch.hpp"
#include "device/element_loops.hpp"
#include "machine.hpp"

namespace zeroth::cuda {
namespace {

using testing::machine;
using testing::Numbers;
using testing::OnMachine;
using testing::random_floats;
using testing::rounded;
using testing::same_bits;

template <class To, class From>
struct Types {
  using Destination = To;
  using Source = From;
};

std::vector<std::int64_t> const counts{0, 1, 2, 7, 8, 31, 251, 2047, 2048, 2049, 8192, 12289};

struct Shifts {
  std::int64_t destination, source;
};
std::vector<Shifts> const all_shifts{{0, 0}, {8, 8}, {4, 4}, {3, 3}, {0, 1}, {5, 2}};

TEMPLATE_TEST_CASE("convert gives the CPU's bits, NaN payloads included, at every count and alignment", "",
                   (Types<float, float>), (Types<float, bf16>), (Types<float, fp16>), (Types<bf16, float>),
                   (Types<bf16, bf16>), (Types<bf16, fp16>), (Types<fp16, float>), (Types<fp16, bf16>),
                   (Types<fp16, fp16>)) {
  using To = typename TestType::Destination;
  using From = typename TestType::Source;
  testing::every_way();
  for (std::int64_t const count : counts) {
    auto const source = rounded<From>(random_floats(count, Numbers::any, 31));
    std::vector<To> expected(source.size());
    device::convert_elements(expected.data(), dtype_of<To>, source.data(), dtype_of<From>, count);
    for (Shifts const& shifts : all_shifts) {
      INFO(count << " elements, shifted by " << shifts.destination << " and " << shifts.source);
      OnMachine<From> const from{source, shifts.source};
      OnMachine<To> const to{std::vector<To>(source.size()), shifts.destination};
      CHECK(convert(machine().stream(), to.data(), dtype_of<To>, from.data(), dtype_of<From>, count) == cudaSuccess);
      CHECK(same_bits(to.values(), expected));
      CHECK(same_bits(from.values(), source));
    }
  }
}

TEST_CASE("all 65536 values of bf16 and fp16 widen and round as on the CPU") {
  testing::every_way();
  auto const check = [&]<class T>(T) {
    std::vector<T> source;
    for (int bits = 0; bits < 65536; ++bits) {
      source.push_back({static_cast<std::uint16_t>(bits)});
    }
    std::vector<float> wide(source.size());
    std::vector<T> back(source.size());
    device::convert_elements(wide.data(), Dtype::fp32, source.data(), dtype_of<T>, 65536);
    device::convert_elements(back.data(), dtype_of<T>, wide.data(), Dtype::fp32, 65536);
    OnMachine<T> const a{source};
    OnMachine<float> const b{std::vector<float>(source.size())};
    OnMachine<T> const c{source};
    CHECK(convert(machine().stream(), b.data(), Dtype::fp32, a.data(), dtype_of<T>, 65536) == cudaSuccess);
    CHECK(convert(machine().stream(), c.data(), dtype_of<T>, b.data(), Dtype::fp32, 65536) == cudaSuccess);
    CHECK(same_bits(b.values(), wide));
    CHECK(same_bits(c.values(), back));
  };
  check(bf16{});
  check(fp16{});
}

TEST_CASE("halfway between two values of bf16 or fp16 the even one is taken, as on the CPU") {
  testing::every_way();
  auto const check = []<class T>(T) {
    std::vector<float> middles;
    for (int bits = 0; bits < 65535; ++bits) {
      float const low = to_float(std::bit_cast<T>(static_cast<std::uint16_t>(bits)));
      float const high = to_float(std::bit_cast<T>(static_cast<std::uint16_t>(bits + 1)));
      middles.push_back(low + (high - low) / 2);
    }
    std::vector<T> expected(middles.size());
    device::convert_elements(expected.data(), dtype_of<T>, middles.data(), Dtype::fp32, 65535);
    OnMachine<float> const from{middles};
    OnMachine<T> const to{std::vector<T>(middles.size())};
    CHECK(convert(machine().stream(), to.data(), dtype_of<T>, from.data(), Dtype::fp32, 65535) == cudaSuccess);
    CHECK(testing::first_difference(to.values(), expected) == -1);
  };
  check(bf16{});
  check(fp16{});
}

TEST_CASE("convert in place leaves everything as it is") {
  testing::every_way();
  auto const values = random_floats(100, Numbers::any, 1);
  OnMachine<float> const there{values};
  CHECK(convert(machine().stream(), there.data(), Dtype::fp32, there.data(), Dtype::fp32, 100) == cudaSuccess);
  CHECK(same_bits(there.values(), values));
}

struct Range {
  std::int64_t begin, count;
};

/// The same epilogue on the CPU and here; the destinations and sums must be equal.
template <class To, class From>
void check_epilogue(std::vector<From> const& source, std::vector<To> const& before, Range const& sums, bool accumulate,
                    bool with_sums, Shifts const& shifts) {
  auto const count = static_cast<std::int64_t>(source.size());
  auto const sum_count = static_cast<std::size_t>(device::sum_blocks(sums.count));
  auto expected = before;
  std::vector<float> expected_sums(sum_count, -1.0F);
  OnMachine<From> const from{source, shifts.source};
  OnMachine<To> const to{before, shifts.destination};
  OnMachine<float> const got_sums{expected_sums};

  device::ReduceEpilogue args;
  args.source = source.data();
  args.source_dtype = dtype_of<From>;
  args.destination = expected.data();
  args.destination_dtype = dtype_of<To>;
  args.count = count;
  args.accumulate = accumulate;
  args.block_sums = with_sums ? expected_sums.data() : nullptr;
  args.sums_begin = sums.begin;
  args.sums_count = sums.count;
  device::reduce_epilogue(args);

  args.source = from.data();
  args.destination = to.data();
  args.block_sums = with_sums ? got_sums.data() : nullptr;
  CHECK(reduce_epilogue(machine().stream(), args) == cudaSuccess);
  CHECK(testing::first_difference(to.values(), expected) == -1);
  CHECK(testing::first_difference(got_sums.values(), expected_sums) == -1);
}

TEMPLATE_TEST_CASE("reduce_epilogue gives the CPU's elements and block sums", "", (Types<float, float>),
                   (Types<float, bf16>), (Types<float, fp16>), (Types<bf16, float>), (Types<bf16, bf16>),
                   (Types<bf16, fp16>), (Types<fp16, float>), (Types<fp16, bf16>), (Types<fp16, fp16>)) {
  using To = typename TestType::Destination;
  using From = typename TestType::Source;
  testing::every_way();
  bool const accumulate = GENERATE(false, true);
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any_finite, Numbers::any);
  constexpr std::int64_t count = 9011;
  auto const source = rounded<From>(random_floats(count, numbers, 21));
  auto const before = rounded<To>(random_floats(count, numbers, 22));
  for (Range const& sums : {Range{0, count}, Range{0, 0}, Range{0, 1}, Range{0, 1024}, Range{7, 1025}, Range{8, 4096},
                            Range{3000, 4097}, Range{16, 8995}}) {
    for (Shifts const& shifts : all_shifts) {
      INFO("sums of [" << sums.begin << ", +" << sums.count << "), shifted by " << shifts.destination << " and "
                       << shifts.source);
      check_epilogue<To, From>(source, before, sums, accumulate, true, shifts);
    }
  }
  check_epilogue<To, From>(source, before, {0, 0}, accumulate, false, {0, 0});
}

TEST_CASE("an epilogue of no elements does nothing") {
  testing::every_way();
  check_epilogue<float, bf16>({}, {}, {0, 0}, true, true, {0, 0});
}

TEMPLATE_TEST_CASE("reduce_epilogue in place only reads the sums, and writes nothing", "", float, bf16, fp16) {
  testing::every_way();
  for (std::int64_t const shift : {0, 1}) {
    auto const values = rounded<TestType>(random_floats(5003, Numbers::any_finite, 5));
    auto const blocks = static_cast<std::size_t>(device::sum_blocks(5000));
    std::vector<float> expected(blocks);
    OnMachine<TestType> const there{values, shift};
    OnMachine<float> const sums{expected};
    auto copy = values;
    device::ReduceEpilogue args;
    args.source = args.destination = copy.data();
    args.source_dtype = args.destination_dtype = dtype_of<TestType>;
    args.count = 5003;
    args.block_sums = expected.data();
    args.sums_begin = 2;
    args.sums_count = 5000;
    device::reduce_epilogue(args);
    args.source = args.destination = there.data();
    args.block_sums = sums.data();
    CHECK(reduce_epilogue(machine().stream(), args) == cudaSuccess);
    CHECK(same_bits(there.values(), values));
    CHECK(testing::first_difference(sums.values(), expected) == -1);
  }
}

TEST_CASE("one bad element affects only the sum of its block") {
  testing::every_way();
  for (float const bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(4096, 1.0F);
    values[2500] = bad;
    OnMachine<float> const there{values};
    OnMachine<float> const sums{std::vector<float>(32)};
    device::ReduceEpilogue args;
    args.source = args.destination = there.data();
    args.count = args.sums_count = 4096;
    args.block_sums = sums.data();
    CHECK(reduce_epilogue(machine().stream(), args) == cudaSuccess);
    auto const got = sums.values();
    CHECK(got[18] == 128);
    CHECK_FALSE(std::isfinite(got[19]));
    CHECK(got[20] == 128);
  }
}

TEST_CASE("elements beyond 2^31 are counted in 64 bits") {
  testing::every_way();
  constexpr std::int64_t far = (std::int64_t{1} << 32) + 5;
  auto const values = random_floats(3000, Numbers::ordinary, 8);
  std::vector<float> expected(24);
  auto copy = values;
  device::ReduceEpilogue args;
  args.source = args.destination = copy.data();
  args.count = args.sums_count = 3000;
  args.block_sums = expected.data();
  device::reduce_epilogue(args);

  OnMachine<float> const there{values};
  OnMachine<float> const sums{std::vector<float>(24)};
  args.source = args.destination = there.data_before(far);  // in place: only what is summed is touched
  args.count = far + 3000;
  args.block_sums = sums.data();
  args.sums_begin = far;
  CHECK(reduce_epilogue(machine().stream(), args) == cudaSuccess);
  CHECK(testing::first_difference(sums.values(), expected) == -1);
}

}  // namespace
}  // namespace zeroth::cuda
