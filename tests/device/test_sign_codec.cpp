// SPDX-License-Identifier: Apache-2.0
/// Compares the codec `sign` with its definition, block by block: the encoded bytes, the decoded values, and the errors
/// kept for the next call.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "device/kernels.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::device {
namespace {

using Catch::Contains;

constexpr auto count_of_block = static_cast<std::size_t>(codec_block_count);
constexpr auto bytes_of_block = static_cast<std::size_t>(encoded_block_bytes(Codec::sign));

struct SignMachine {
  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Stream> stream = device->make_stream("signs", Overlap::off);
  Kernels& kernels = device->kernels();
};

template <class T>
std::vector<std::byte> encoded_signs(std::vector<T> const& values, std::vector<float>& errors) {
  SignMachine machine;
  std::vector<std::byte> bytes(values.size() / count_of_block * bytes_of_block, std::byte{0xa5});
  machine.kernels.encode(*machine.stream, {.codec = Codec::sign,
                                           .source = values.data(),
                                           .dtype = dtype_of<T>,
                                           .count = std::ssize(values),
                                           .destination = bytes.data(),
                                           .errors = errors.data()});
  return bytes;
}

std::vector<float> decoded_signs(std::vector<std::byte> const& bytes) {
  SignMachine machine;
  std::vector<float> values(bytes.size() / bytes_of_block * count_of_block);
  machine.kernels.fold_received(*machine.stream, {.codec = Codec::sign,
                                                  .received = bytes.data(),
                                                  .ranks = 1,
                                                  .dtype = Dtype::fp32,
                                                  .count = std::ssize(values),
                                                  .output = values.data()});
  return values;
}

template <class T>
std::vector<T> some_values(std::size_t count, std::uint32_t seed) {
  std::vector<T> values;
  for (float const value : testing::random_floats(static_cast<std::int64_t>(count), testing::Numbers::ordinary, seed)) {
    values.push_back(from_float<T>(value));
  }
  return values;
}

std::uint16_t header_at(std::vector<std::byte> const& bytes, std::size_t block) {
  std::uint16_t header = 0;
  std::memcpy(&header, bytes.data() + block * bytes_of_block, sizeof header);
  return header;
}

}  // namespace

TEMPLATE_TEST_CASE("signs travel with the mean magnitude, and the rest is kept", "", float, bf16, fp16) {
  constexpr std::size_t blocks = 40;
  auto const values = some_values<TestType>(blocks * count_of_block, 1);
  auto const before = some_values<float>(blocks * count_of_block, 2);
  auto errors = before;
  auto const decoded = decoded_signs(encoded_signs(values, errors));
  for (std::size_t block = 0; block < blocks; ++block) {
    double sum = 0;
    for (std::size_t i = block * count_of_block; i < (block + 1) * count_of_block; ++i) {
      sum += std::fabs(to_float(values[i]) + before[i]);
    }
    float const magnitude = std::fabs(decoded[block * count_of_block]);
    int exponent = 0;
    float const mantissa = std::frexp(magnitude, &exponent);
    REQUIRE((mantissa == 0.5F || mantissa == 0.75F));
    // Neighbours are a power of two and 1.5 times it: the nearest is off by a quarter of that power at most.
    REQUIRE(std::fabs(sum / double{count_of_block} - double{magnitude}) <= std::ldexp(0.2501, exponent - 1));
    for (std::size_t i = block * count_of_block; i < (block + 1) * count_of_block; ++i) {
      float const value = to_float(values[i]) + before[i];
      REQUIRE(decoded[i] == (value < 0 ? -magnitude : magnitude));
      REQUIRE(errors[i] == value - decoded[i]);
    }
  }
}

TEST_CASE("every magnitude of every number of elements comes back without an error") {
  // 2 bits below the smallest magnitude there are no units to tell it from its neighbour.
  for (std::uint32_t code = 4; code <= 0x1fd; ++code) {
    auto const magnitude = std::bit_cast<float>(code << 22U);
    std::vector<float> values(count_of_block * count_of_block, 0.0F);
    for (std::size_t count = 1; count <= count_of_block; ++count) {
      for (std::size_t i = 0; i < count; ++i) {
        values[(count - 1) * count_of_block + i] = (i * i + count) % 3 == 0 ? -magnitude : magnitude;
      }
    }
    std::vector<float> errors(values.size(), 0.0F);
    auto const bytes = encoded_signs(values, errors);
    REQUIRE(decoded_signs(bytes) == values);
    REQUIRE(std::ranges::all_of(errors, [](float error) { return error == 0; }));
    for (std::size_t block = 0; block < count_of_block; ++block) {
      REQUIRE(header_at(bytes, block) == (code | block << 9U));
    }
  }
}

TEST_CASE("bits of signs do not depend on the instruction set") {
  auto const numbers = GENERATE(testing::Numbers::ordinary, testing::Numbers::any);
  auto const values = testing::random_floats(70 * codec_block_count, numbers, 5);
  auto const before = testing::random_floats(70 * codec_block_count, testing::Numbers::ordinary, 6);
  auto const encode = [&](Isa isa) {
    testing::WithIsa const choice{isa};
    auto errors = before;
    auto bytes = encoded_signs(values, errors);
    auto const decoded = decoded_signs(bytes);
    auto const add = [&](std::vector<float> const& more) {
      auto const* const data = reinterpret_cast<std::byte const*>(more.data());
      bytes.insert(bytes.end(), data, data + more.size() * sizeof(float));
    };
    add(errors);
    add(decoded);
    return bytes;
  };
  auto const isas = testing::all_isas();
  auto const first = encode(isas.front());
  for (auto const isa : isas) {
    CHECK(encode(isa) == first);
  }
}

TEST_CASE("zeros at the end of a block stay zeros, and a block of zeros is two bytes of zeros") {
  std::vector<float> values(3 * count_of_block, 0.0F);
  std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(count_of_block), 5, -2.0F);
  values[2 * count_of_block + 7] = 1e-40F;  // below the normal numbers
  std::vector<float> errors(values.size(), 0.0F);
  auto const bytes = encoded_signs(values, errors);
  CHECK(header_at(bytes, 0) == 0);
  CHECK(header_at(bytes, 2) == 0);
  auto const decoded = decoded_signs(bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    bool const is_small = i == 2 * count_of_block + 7;
    REQUIRE(decoded[i] == (is_small ? 0.0F : values[i]));
    REQUIRE(errors[i] == (is_small ? values[i] : 0.0F));
  }
}

TEST_CASE("a block that is not finite decodes to NaN, and keeps its errors") {
  float const wrong = GENERATE(std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN());
  auto values = some_values<float>(2 * count_of_block, 3);
  values[17] = wrong;
  std::fill_n(values.begin() + 100, count_of_block - 100, 0.0F);
  auto const before = [&] {
    auto errors = some_values<float>(2 * count_of_block, 4);
    std::fill_n(errors.begin() + 100, count_of_block - 100, 0.0F);
    return errors;
  }();
  auto errors = before;
  auto const decoded = decoded_signs(encoded_signs(values, errors));
  for (std::size_t i = 0; i < count_of_block; ++i) {
    REQUIRE((i < 100 ? std::isnan(decoded[i]) : decoded[i] == 0));
    REQUIRE(errors[i] == before[i]);
    REQUIRE(std::isfinite(decoded[count_of_block + i]));
  }
}

TEST_CASE("over many calls what is decoded adds up to what was given") {
  auto const values = some_values<float>(4 * count_of_block, 9);
  std::vector<float> errors(values.size(), 0.0F), sums(values.size(), 0.0F);
  constexpr int calls = 2000;
  for (int call = 0; call < calls; ++call) {
    auto const decoded = decoded_signs(encoded_signs(values, errors));
    std::ranges::transform(sums, decoded, sums.begin(), std::plus{});
  }
  for (std::size_t block = 0; block < 4; ++block) {
    float largest = 0;
    for (std::size_t i = block * count_of_block; i < (block + 1) * count_of_block; ++i) {
      largest = std::max(largest, std::fabs(values[i]));
    }
    for (std::size_t i = block * count_of_block; i < (block + 1) * count_of_block; ++i) {
      // Large elements lag until their errors have raised the mean to their own size, at most by this bound.
      REQUIRE(std::fabs(sums[i] - calls * values[i]) < 1.5F * count_of_block * largest);
    }
  }
}

TEST_CASE("signs without memory for errors are refused, and errors of other codecs") {
  SignMachine machine;
  std::vector<float> values(count_of_block);
  std::vector<std::byte> bytes(1024);
  Encode args{.codec = Codec::sign,
              .source = values.data(),
              .dtype = Dtype::fp32,
              .count = codec_block_count,
              .destination = bytes.data()};
  CHECK_THROWS_WITH(machine.kernels.encode(*machine.stream, args), Contains("encode: codec sign needs errors"));
  args.codec = Codec::int4;
  args.errors = values.data();
  CHECK_THROWS_WITH(machine.kernels.encode(*machine.stream, args), Contains("encode: codec int4 has no errors"));
}

}  // namespace zeroth::device
