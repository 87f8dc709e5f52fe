// SPDX-License-Identifier: Apache-2.0
/// Codecs against their definition, element by element: encoded blocks, what they decode to, and sums over ranks.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "device/kernels.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::device {
namespace {

using Catch::Contains;
template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

constexpr auto block_count = static_cast<std::size_t>(codec_block_count);

struct CodecMachine {
  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Stream> stream = device->make_stream("codecs", Overlap::off);
  Kernels& kernels = device->kernels();
};

template <class T>
std::vector<std::byte> encoded(Codec codec, std::vector<T> const& values) {
  CodecMachine machine;
  auto const count = std::ssize(values);
  std::vector<std::byte> result(static_cast<std::size_t>(encoded_bytes(codec, dtype_of<T>, count)), std::byte{0xa5});
  machine.kernels.encode(*machine.stream, {codec, values.data(), dtype_of<T>, count, result.data()});
  return result;
}

/// The scale and the integers of a block.
struct Decoded {
  float scale;
  std::vector<int> codes;
};
Decoded decoded(Codec codec, std::byte const* block) {
  Decoded result{};
  std::memcpy(&result.scale, block, sizeof result.scale);
  for (std::size_t i = 0; i < block_count; ++i) {
    auto const byte = static_cast<int>(block[4 + (codec == Codec::int8 ? i : i % 64)]);
    int const code = codec == Codec::int8 ? byte : byte >> (i / 64 * 4) & 15;
    int const limit = codec == Codec::int8 ? 128 : 8;
    result.codes.push_back(code < limit ? code : code - 2 * limit);
  }
  return result;
}

float limit_of(Codec codec) { return codec == Codec::int8 ? 127.0F : 7.0F; }

/// The sum of the ranks' pieces, one rank after another.
template <class T>
std::vector<T> folded(Codec codec, std::vector<std::vector<T>> const& values, std::vector<float>* sums = nullptr,
                      bool accumulate = false) {
  CodecMachine machine;
  auto const count = std::ssize(values.front());
  std::vector<std::byte> received;
  for (auto const& of_rank : values) {
    std::vector<std::byte> piece(std::as_bytes(std::span{of_rank}).begin(), std::as_bytes(std::span{of_rank}).end());
    if (codec != Codec::exact) {
      piece = encoded(codec, of_rank);
    }
    received.insert(received.end(), piece.begin(), piece.end());
  }
  std::vector<T> output(static_cast<std::size_t>(count));
  machine.kernels.fold_received(*machine.stream, {.codec = codec,
                                                  .received = received.data(),
                                                  .ranks = static_cast<int>(values.size()),
                                                  .dtype = dtype_of<T>,
                                                  .count = count,
                                                  .output = sums == nullptr ? output.data() : nullptr,
                                                  .sums = sums == nullptr ? nullptr : sums->data(),
                                                  .accumulate = accumulate});
  return output;
}

template <class T>
std::vector<T> ordinary_values(std::size_t count, std::uint32_t seed) {
  std::vector<T> values;
  for (float const value : testing::random_floats(static_cast<std::int64_t>(count), testing::Numbers::ordinary, seed)) {
    values.push_back(from_float<T>(value));
  }
  return values;
}

}  // namespace

TEMPLATE_TEST_CASE("a block has the scale of its largest element and the nearest integers", "", float, bf16, fp16) {
  auto const codec = GENERATE(Codec::int8, Codec::int4);
  auto const values = ordinary_values<TestType>(3 * block_count, 1);
  auto const bytes = encoded(codec, values);
  for (std::size_t block = 0; block < 3; ++block) {
    auto const found = decoded(codec, bytes.data() + static_cast<std::int64_t>(block) * encoded_block_bytes(codec));
    float largest = 0;
    for (std::size_t i = 0; i < block_count; ++i) {
      largest = std::max(largest, std::fabs(to_float(values[block * block_count + i])));
    }
    REQUIRE(found.scale == largest / limit_of(codec));
    for (std::size_t i = 0; i < block_count; ++i) {
      float const value = to_float(values[block * block_count + i]);
      REQUIRE(static_cast<float>(found.codes[i]) == std::nearbyint(value * (1 / found.scale)));
      REQUIRE(std::fabs(static_cast<float>(found.codes[i]) * found.scale - value) <= 0.5001F * found.scale);
    }
  }
}

TEST_CASE("every integer comes back, and halves go to the even one") {
  auto const codec = GENERATE(Codec::int8, Codec::int4);
  auto const limit = static_cast<int>(limit_of(codec));
  for (int shift = 0; shift <= 2 * limit; shift += static_cast<int>(block_count) - 1) {
    std::vector<float> values{limit_of(codec)};  // so that the scale is 1
    for (int i = 0; i + 1 < static_cast<int>(block_count); ++i) {
      values.push_back(static_cast<float>(std::min(limit, shift + i - limit)));
    }
    auto const found = decoded(codec, encoded(codec, values).data());
    REQUIRE(found.scale == 1);
    for (std::size_t i = 0; i < block_count; ++i) {
      REQUIRE(static_cast<float>(found.codes[i]) == values[i]);
    }
  }
  std::vector<float> halves(block_count, 0.0F);
  halves[0] = limit_of(codec);
  for (std::size_t i = 1; i < block_count; ++i) {
    halves[i] = static_cast<float>(static_cast<int>(i) % (2 * limit) - limit) + 0.5F;
  }
  auto const found = decoded(codec, encoded(codec, halves).data());
  for (std::size_t i = 0; i < block_count; ++i) {
    REQUIRE(static_cast<float>(found.codes[i]) == std::nearbyint(halves[i]));
  }
}

TEST_CASE("a block of zeros is zeros, one below the normal numbers too, and what is not finite is NaN") {
  auto const codec = GENERATE(Codec::int8, Codec::int4);
  std::vector<float> values(4 * block_count, 0.0F);
  std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(block_count), block_count, 1e-40F);
  values[2 * block_count + 17] = std::numeric_limits<float>::infinity();
  values[3 * block_count + 100] = std::numeric_limits<float>::quiet_NaN();
  std::fill_n(values.end() - 20, 10, 5.0F);
  auto const sum = folded<float>(codec, {values});
  for (std::size_t i = 0; i < values.size(); ++i) {
    bool const is_zero = i < 2 * block_count || values[i] == 0;  // padding of a block that has a NaN too
    REQUIRE((is_zero ? sum[i] == 0 : std::isnan(sum[i])));
  }
}

namespace {

template <class T>
std::vector<T> quantised(std::vector<T> values) {
  CodecMachine machine;
  machine.kernels.quantise(*machine.stream, {values.data(), dtype_of<T>, std::ssize(values)});
  return values;
}

/// All values of T, in blocks with values of about the same size, and of very different ones.
template <class T>
std::vector<T> all_values(std::uint32_t stride) {
  std::vector<T> values;
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    values.push_back(std::bit_cast<T>(static_cast<std::uint16_t>(i * stride)));  // an odd stride reaches all values
  }
  return values;
}

}  // namespace

TEMPLATE_TEST_CASE("parameters are rounded to integers times a power of two, and a second time changes nothing", "",
                   bf16, fp16) {
  for (std::uint32_t const stride : {1U, 3U, 129U, 0x0801U}) {
    auto const values = all_values<TestType>(stride);
    for (auto const isa : testing::all_isas()) {
      testing::WithIsa const choice{isa};
      auto const once = quantised(values);
      REQUIRE(same_bits(quantised(once), once));
      for (std::size_t block = 0; block < values.size(); block += block_count) {
        float largest = 0;
        bool finite = true;
        for (std::size_t i = block; i < block + block_count; ++i) {
          largest = std::max(largest, std::fabs(to_float(values[i])));
          finite = finite && std::isfinite(to_float(values[i]));
        }
        int const least = dtype_of<TestType> == Dtype::fp16 ? -24 : -126;
        float const scale = std::ldexp(1.0F, largest == 0 ? least : std::max(std::ilogb(largest) - 6, least));
        for (std::size_t i = block; i < block + block_count; ++i) {
          float const before = to_float(values[i]), after = to_float(once[i]);
          if (!finite) {
            REQUIRE((before == 0 ? after == 0 : std::isnan(after) || std::fabs(before) < 0x1p-126F));
            continue;
          }
          float const code = std::min(127.0F, std::nearbyint(std::fabs(before) / scale));
          REQUIRE(std::fabs(after) == code * scale);
          REQUIRE((after == 0 || std::signbit(after) == std::signbit(before)));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("rounded parameters travel in eight bits without loss", "", bf16, fp16) {
  for (std::uint32_t const stride : {1U, 3U, 129U}) {
    auto const values = quantised(all_values<TestType>(stride));
    CodecMachine machine;
    auto const count = std::ssize(values);
    std::vector<std::byte> bytes(static_cast<std::size_t>(encoded_bytes(Codec::int8, dtype_of<TestType>, count)));
    machine.kernels.encode(*machine.stream, {.codec = Codec::int8,
                                             .source = values.data(),
                                             .dtype = dtype_of<TestType>,
                                             .count = count,
                                             .destination = bytes.data(),
                                             .scales = BlockScales::powers_of_two});
    std::vector<TestType> arrived(values.size());
    machine.kernels.fold_received(*machine.stream, {.codec = Codec::int8,
                                                    .received = bytes.data(),
                                                    .ranks = 1,
                                                    .dtype = dtype_of<TestType>,
                                                    .count = count,
                                                    .output = arrived.data()});
    for (std::size_t i = 0; i < values.size(); ++i) {
      bool const is_nan = std::isnan(to_float(values[i]));
      REQUIRE((is_nan ? std::isnan(to_float(arrived[i])) : to_float(arrived[i]) == to_float(values[i])));
    }
  }
}

TEMPLATE_TEST_CASE("sums are those of the ranks one after another, rounded once", "", float, bf16, fp16) {
  auto const codec = GENERATE(Codec::exact, Codec::int8, Codec::int4);
  int const ranks = GENERATE(1, 2, 3, 5, 17);
  std::vector<std::vector<TestType>> values;
  std::vector<std::vector<float>> sent;
  for (int rank = 0; rank < ranks; ++rank) {
    values.push_back(ordinary_values<TestType>(2 * block_count, static_cast<std::uint32_t>(rank)));
    std::vector<float> of_rank;
    auto const bytes = codec == Codec::exact ? std::vector<std::byte>{} : encoded(codec, values.back());
    for (std::size_t i = 0; i < values.back().size(); ++i) {
      if (codec == Codec::exact) {
        of_rank.push_back(to_float(values.back()[i]));
      } else {
        auto const block = static_cast<std::int64_t>(i / block_count) * encoded_block_bytes(codec);
        auto const found = decoded(codec, bytes.data() + block);
        of_rank.push_back(static_cast<float>(found.codes[i % block_count]) * found.scale);
      }
    }
    sent.push_back(of_rank);
  }
  auto const before = ordinary_values<float>(2 * block_count, 99);
  std::vector<TestType> expected;
  std::vector<float> expected_sums, expected_added;
  for (std::size_t i = 0; i < before.size(); ++i) {
    float sum = sent[0][i];
    float added = before[i] + sent[0][i];
    for (std::size_t rank = 1; rank < sent.size(); ++rank) {
      sum += sent[rank][i];
      added += sent[rank][i];
    }
    expected.push_back(from_float<TestType>(sum));
    expected_sums.push_back(sum);
    expected_added.push_back(added);
  }
  for (auto const isa : testing::all_isas()) {
    testing::WithIsa const choice{isa};
    CHECK(same_bits(folded<TestType>(codec, values), expected));
    auto sums = before;
    static_cast<void>(folded<TestType>(codec, values, &sums));
    CHECK(same_bits(sums, expected_sums));
    sums = before;
    static_cast<void>(folded<TestType>(codec, values, &sums, true));
    CHECK(same_bits(sums, expected_added));
  }
}

TEST_CASE("kernels of codecs refuse what they cannot take") {
  CodecMachine machine;
  std::vector<float> values(block_count);
  std::vector<std::byte> bytes(1024);
  CHECK_THROWS_WITH(
      machine.kernels.encode(*machine.stream, {Codec::int8, values.data(), Dtype::fp32, 100, bytes.data()}),
      Contains("encode: count is 100, must be a multiple of 128"));
  CHECK_THROWS_WITH(
      machine.kernels.encode(*machine.stream, {Codec::exact, values.data(), Dtype::fp32, 128, bytes.data()}),
      Contains("encode: codec exact encodes nothing"));
  CHECK_THROWS_WITH(machine.kernels.encode(*machine.stream, {Codec::int4, values.data(), Dtype::fp32, 128, bytes.data(),
                                                             BlockScales::powers_of_two}),
                    Contains("encode: codec int4 has tight scales"));
  CHECK_THROWS_WITH(machine.kernels.quantise(*machine.stream, {values.data(), Dtype::fp32, 128}),
                    Contains("quantise: the dtype is fp32; allowed: bf16, fp16"));
  CHECK_THROWS_WITH(machine.kernels.fold_received(*machine.stream, {.codec = Codec::none, .ranks = 1}),
                    Contains("fold_received: codec none of 1 ranks"));
}

}  // namespace zeroth::device
