// SPDX-License-Identifier: Apache-2.0
#include "zeroth/core/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/isa.hpp"

namespace zeroth {
namespace {

std::vector<float> uniform(Random const& random, std::int64_t first, std::size_t count) {
  std::vector<float> values(count + 1, 7.0F);
  random.uniform(first, std::span{values}.first(count));
  REQUIRE(values.back() == 7.0F);  // nothing was written after the end
  values.pop_back();
  return values;
}

std::vector<std::byte> kept(Random const& random, std::int64_t first, float rate, std::size_t count) {
  std::vector<std::byte> values(count + 1, std::byte{7});
  random.keep(first, rate, std::span{values}.first(count));
  REQUIRE(values.back() == std::byte{7});
  values.pop_back();
  return values;
}

std::uint32_t word(Random const& random, std::int64_t element) {
  return random.words(static_cast<std::uint64_t>(element / 4))[static_cast<std::size_t>(element % 4)];
}

constexpr Random some{.seed = 3, .step = 5, .sample = 1000, .use = 2};

/// The deviation of the histogram of values in [0, 1), with 256 bins, from the expected one, in standard deviations.
double chi_square(std::vector<float> const& values) {
  std::vector<int> histogram(256);
  for (auto const value : values) {
    ++histogram[static_cast<std::size_t>(value * 256)];
  }
  auto const expected = static_cast<double>(values.size()) / 256;
  double sum = 0;
  for (int const hits : histogram) {
    sum += (hits - expected) * (hits - expected) / expected;
  }
  return (sum - 255) / std::sqrt(2 * 255.0);
}

/// The correlation of two rows, in standard deviations of the correlation of independent rows.
double correlation(std::vector<float> const& a, std::vector<float> const& b, std::size_t distance) {
  auto const count = std::min(a.size(), b.size()) - distance;
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += (static_cast<double>(a[i]) - 0.5) * (static_cast<double>(b[i + distance]) - 0.5);
  }
  return sum * 12 / std::sqrt(static_cast<double>(count));
}

}  // namespace

TEST_CASE("random elements are Philox's words, with a fixed layout of counter and key") {
  // From kat_vectors of Random123, with key and counters split by hand. Resumed runs must draw the same numbers.
  Random const random{
      .seed = 0x299f31d0a4093822U - 3U * 0x9e3779b97f4a7c15U, .step = 2, .sample = 0x85a313198a2e, .use = 0x03707344};
  constexpr std::uint64_t group = 0x08d3243f6a88;
  CHECK(random.words(group) == PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(uniform(random, 4 * group, 4) == std::vector{static_cast<float>(0xd16cfe) * 0x1p-24F, 0x94fdcc * 0x1p-24F,
                                                     0x5001e4 * 0x1p-24F, 0x24126e * 0x1p-24F});
  CHECK(kept(random, 4 * group, 0.5F, 4) == std::vector{std::byte{1}, std::byte{1}, std::byte{0}, std::byte{0}});
  CHECK(Random{.seed = 0x61c8864680b583ebU, .step = 0}.words(0) ==  // key and counter 0
        PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
}

TEST_CASE("random elements are the same on every instruction set, wherever a call begins and ends") {
  constexpr std::int64_t far = (std::int64_t{1} << 34U) - 5;  // a group's number becomes longer than a word
  for (Isa const isa : testing::all_isas()) {
    testing::WithIsa const with{isa};
    for (std::int64_t const first : {std::int64_t{0}, std::int64_t{1}, std::int64_t{6}, std::int64_t{2047}, far}) {
      for (std::size_t const count : {0U, 1U, 3U, 4U, 31U, 33U, 2048U, 2049U, 5001U}) {
        CAPTURE(testing::name_of(isa), first, count);
        auto const values = uniform(some, first, count);
        auto const mask = kept(some, first, 0.1F, count);
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i) {
          auto const element = word(some, first + static_cast<std::int64_t>(i));
          wrong += values[i] == static_cast<float>(element >> 8U) * 0x1p-24F ? 0 : 1;
          wrong += mask[i] == std::byte{values[i] >= 0.1F} ? 0 : 1;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("a mask keeps the elements whose numbers are not below the rate, at any rate") {
  constexpr std::size_t count = 20000;
  auto const values = uniform(some, 0, count);
  for (float const rate : {0.0F, 0x1p-149F, 0x1p-25F, 0x1p-24F, 0x1.000002p-24F, 1e-3F, 0.1F, 0.5F, 0.9F,
                           std::nextafter(1.0F, 0.0F), values[7], std::nextafter(values[7], 1.0F)}) {
    CAPTURE(rate);
    auto const mask = kept(some, 0, rate, count);
    std::int64_t wrong = 0, dropped = 0;
    for (std::size_t i = 0; i < count; ++i) {
      wrong += mask[i] == std::byte{values[i] >= rate} ? 0 : 1;
      dropped += mask[i] == std::byte{0} ? 1 : 0;
    }
    CHECK(wrong == 0);
    auto const p = static_cast<double>(rate);
    CHECK(std::fabs(static_cast<double>(dropped) - p * count) <= 5 * std::sqrt(count * p * (1 - p)) + 1);
  }
  CHECK(kept(some, 0, 0, count) == std::vector(count, std::byte{1}));
}

TEST_CASE("no two seeds, steps, samples, uses or elements share random words") {
  std::set<PhiloxWords> words;
  std::size_t calls = 0;
  for (std::uint64_t const seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32U, ~std::uint64_t{0}}) {
    for (std::int64_t const step : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 40U}) {
      for (std::int64_t const sample : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 32U}) {
        for (std::uint32_t const use : {0U, 1U, 1U << 31U}) {
          for (std::uint64_t const first : {std::uint64_t{0}, std::uint64_t{1} << 32U, std::uint64_t{1} << 47U}) {
            for (std::uint64_t group = first; group < first + 20; ++group) {
              words.insert(Random{seed, step, sample, use}.words(group));
              ++calls;
            }
          }
        }
      }
    }
  }
  CHECK(words.size() == calls);
}

TEST_CASE("random numbers are uniform, and independent of their neighbours in every direction") {
  constexpr std::size_t count = 200000;
  auto const values = uniform(some, 0, count);
  CHECK(std::fabs(chi_square(values)) < 5);
  double sum = 0, squares = 0;
  for (double const value : values) {
    sum += value;
    squares += (value - 0.5) * (value - 0.5);
  }
  CHECK(std::fabs(sum / count - 0.5) < 5 * std::sqrt(1.0 / 12 / count));
  CHECK(std::fabs(squares / count - 1.0 / 12) < 5 * std::sqrt(1.0 / 180 / count));
  CHECK(*std::ranges::min_element(values) >= 0);
  CHECK(*std::ranges::max_element(values) < 1);
  for (std::size_t const distance : {1U, 2U, 3U, 4U, 5U, 8U, 16U, 384U}) {
    CAPTURE(distance);
    CHECK(std::fabs(correlation(values, values, distance)) < 5);
  }
  for (auto const& other :
       {Random{.seed = 4, .step = 5, .sample = 1000, .use = 2}, Random{.seed = 3, .step = 6, .sample = 1000, .use = 2},
        Random{.seed = 3, .step = 5, .sample = 1001, .use = 2},
        Random{.seed = 3, .step = 5, .sample = 1000, .use = 3}}) {
    CAPTURE(other.seed, other.step, other.sample, other.use);
    CHECK(std::fabs(correlation(values, uniform(other, 0, count), 0)) < 5);
  }
  std::vector<float> of_samples;  // the first elements of many, as a model with short samples takes them
  for (std::int64_t sample = 0; sample < 50000; ++sample) {
    for (auto const value : uniform({.seed = 0, .step = 0, .sample = sample, .use = 0}, 0, 4)) {
      of_samples.push_back(value);
    }
  }
  CHECK(std::fabs(chi_square(of_samples)) < 5);
  CHECK(std::fabs(correlation(of_samples, of_samples, 4)) < 5);
}

TEST_CASE("invalid positions and rates are rejected with what is allowed") {
  std::array<float, 4> values{};
  std::array<std::byte, 4> mask{};
  auto const refused = [](std::function<void()> const& call, std::string const& why) {
    CHECK_THROWS_WITH(call(), Catch::Contains(why));
  };
  refused([&] { Random{.step = -1}.uniform(0, values); }, "Random::uniform(): the step is -1; allowed: 0 or more");
  refused([&] { Random{.sample = -1}.keep(0, 0.5F, mask); },
          "Random::keep(): the sample is -1; allowed: 0 to 281474976710655");
  refused([&] { Random{.sample = Random::most_samples}.uniform(0, values); },
          "the sample is 281474976710656; allowed: 0 to 281474976710655");
  refused([&] { some.uniform(-1, values); },
          "Random::uniform(): 4 elements from -1 on; allowed: elements 0 to 1125899906842623");
  refused([&] { some.keep(Random::most_elements - 3, 0.5F, mask); },
          "Random::keep(): 4 elements from 1125899906842621 on; allowed: elements 0 to 1125899906842623");
  some.keep(Random::most_elements - 4, 0.5F, mask);  // the last ones
  for (float const rate : {-0.1F, 1.0F, std::numeric_limits<float>::infinity()}) {
    refused([&] { some.keep(0, rate, mask); }, "allowed: 0 to below 1");
  }
  refused([&] { some.keep(0, std::numeric_limits<float>::quiet_NaN(), mask); },
          "Random::keep(): the rate is nan; allowed: 0 to below 1");
}

}  // namespace zeroth
