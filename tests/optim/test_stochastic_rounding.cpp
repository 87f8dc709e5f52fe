// SPDX-License-Identifier: Apache-2.0
#include "../../optim/stochastic_rounding.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/isa.hpp"

namespace zeroth::optim {
namespace {

constexpr std::uint32_t noises = 1U << 16U;

std::uint16_t rounded_bits(float value, std::uint32_t noise) { return round_stochastically(value, noise).bits; }

float with_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// The next number of bf16 away from zero.
float away(float value) { return with_bits(std::bit_cast<std::uint32_t>(value) + noises); }

}  // namespace

TEST_CASE("what bf16 can hold stays what it is, whatever the noise") {
  std::int64_t changed = 0;
  for (std::uint32_t high = 0; high < noises; ++high) {
    float const value = with_bits(high << 16U);
    for (std::uint32_t const noise : {0U, 1U, 0x7fffU, 0x8000U, 0xffffU}) {
      auto const got = rounded_bits(value, noise);
      bool const same = std::isnan(value) ? std::isnan(to_float(bf16{got})) && (got >> 15U) == (high >> 15U)
                                          : got == static_cast<std::uint16_t>(high);
      changed += same ? 0 : 1;
    }
  }
  CHECK(changed == 0);
}

TEST_CASE("over all noises the mean is the value itself, and results are its two neighbours") {
  auto values = testing::random_floats(60, testing::Numbers::any_finite, 5);
  values.insert(values.end(), {1 + 0x1p-23F, 1 - 0x1p-24F, -3.14159F, 0x1p-149F, -0x1.8p-140F, 0x1.fcfffep127F});
  for (float const value : values) {
    if (std::fabs(value) >= 0x1.fep127F) {
      continue;  // there is only one finite neighbour
    }
    INFO(value);
    float const low = with_bits(std::bit_cast<std::uint32_t>(value) & 0xffff0000U);
    std::int64_t up = 0;
    std::int64_t odd = 0;
    for (std::uint32_t noise = 0; noise < noises; ++noise) {
      float const got = to_float(round_stochastically(value, noise));
      up += got == away(low) ? 1 : 0;
      odd += got == low || got == away(low) ? 0 : 1;
    }
    CHECK(odd == 0);
    double const step = static_cast<double>(away(low)) - static_cast<double>(low);
    CHECK(static_cast<double>(low) + step * static_cast<double>(up) / noises == static_cast<double>(value));
  }
}

TEST_CASE("finite values stay finite, infinities and NaNs what they are") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (std::uint32_t noise = 0; noise < noises; noise += 5) {
    for (float const sign : {1.0F, -1.0F}) {
      REQUIRE(to_float(round_stochastically(sign * std::numeric_limits<float>::max(), noise)) == sign * 0x1.fep127F);
      REQUIRE(to_float(round_stochastically(sign * 0x1.fe0002p127F, noise)) == sign * 0x1.fep127F);
      REQUIRE(to_float(round_stochastically(sign * inf, noise)) == sign * inf);
    }
    for (std::uint32_t const nan : {0x7f800001U, 0x7fffffffU, 0xff800001U, 0xffffffffU, 0x7fc00000U}) {
      auto const got = rounded_bits(with_bits(nan), noise);
      REQUIRE(std::isnan(to_float(bf16{got})));
      REQUIRE(got >> 15U == nan >> 31U);
      REQUIRE(got == from_float<bf16>(with_bits(nan)).bits);  // as to nearest
    }
  }
}

TEST_CASE("no two elements, updates, states or seeds share random words") {
  std::set<PhiloxWords> words;
  std::size_t calls = 0;
  StepScalars scalars;
  for (std::int64_t const seed : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 32U}) {
    for (std::int64_t const update : {std::int64_t{1}, std::int64_t{2}, std::int64_t{1} << 32U}) {
      scalars.applied = update;
      for (auto const what : {Rounded::master, Rounded::first_state, Rounded::second_state}) {
        for (std::uint64_t const first : {std::uint64_t{0}, std::uint64_t{1} << 32U, std::uint64_t{1} << 59U}) {
          for (std::uint64_t group = first; group < first + 50; ++group) {
            words.insert(noise_words(noise_of(seed, scalars), what, group));
            ++calls;
          }
        }
      }
    }
  }
  CHECK(words.size() == calls);
}

TEST_CASE("random words are Philox's, of a counter and a key that stay where they are") {
  // From kat_vectors of Random123, with counters and keys split by hand. Resumed programs must round alike.
  StepScalars scalars;
  scalars.applied = 0;
  CHECK(noise_words(noise_of(0, scalars), Rounded::master, 0) ==
        PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  scalars.applied = 0x0370734413198a2e;
  auto const noise = noise_of(0x299f31d0a4093822, scalars);
  auto const words = noise_words(noise, Rounded::second_state, 0x05a308d3243f6a88);  // 2 << 30 | 0x05a308d3
  CHECK(words == PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  std::vector<std::uint32_t> lanes;
  for (int lane = 0; lane < noise_lanes; ++lane) {
    lanes.push_back(noise_at(words, lane));
  }
  CHECK(lanes == std::vector<std::uint32_t>{0xfe09, 0xd16c, 0xcceb, 0x94fd, 0xe420, 0x5001, 0x6ea1, 0x2412});
  CHECK(noise_words(noise, Rounded::first_state, 7) ==
        philox({0xa4093822, 0x299f31d0}, {7, 1U << 30U, 0x13198a2e, 0x03707344}));
}

TEST_CASE("many groups at once have the words of one after another") {
  StepScalars scalars;
  scalars.applied = (std::int64_t{5} << 32U) + 3;
  auto const noise = noise_of(0x299f31d0a4093822, scalars);
  for (Isa const isa : testing::all_isas()) {
    testing::WithIsa const with{isa};
    for (auto const what : {Rounded::master, Rounded::first_state, Rounded::second_state}) {
      for (std::uint64_t const first : {std::uint64_t{0}, std::uint64_t{3}, (std::uint64_t{1} << 32U) - 5}) {
        for (std::int64_t const groups : {1, 7, 8, 9, 65}) {
          CAPTURE(testing::name_of(isa), static_cast<std::uint32_t>(what), first, groups);
          auto const room = static_cast<std::size_t>((groups + philox_batch - 1) / philox_batch * philox_batch);
          std::vector<std::uint32_t> words(4 * room + 1, 0xdeadbeefU);
          fill_philox(noise_sequence(noise, what), first, groups, words.data());
          CHECK(words.back() == 0xdeadbeefU);
          std::vector<std::uint32_t> expected;
          for (std::int64_t g = 0; g < groups; ++g) {
            auto const four = noise_words(noise, what, first + static_cast<std::uint64_t>(g));
            expected.insert(expected.end(), four.begin(), four.end());
          }
          words.resize(expected.size());
          CHECK(words == expected);
        }
      }
    }
  }
}

TEST_CASE("noise is uniform, and neighbours' is independent") {
  StepScalars scalars;
  scalars.applied = 17;
  constexpr int groups = 20000;
  std::vector<double> values;  // in [-1, 1), by element
  std::vector<int> histogram(256);
  for (int group = 0; group < groups; ++group) {
    auto const words = noise_words(noise_of(0, scalars), Rounded::master, static_cast<std::uint64_t>(group));
    for (int lane = 0; lane < noise_lanes; ++lane) {
      auto const bits = noise_at(words, lane);
      REQUIRE(bits < noises);
      ++histogram[bits / 256];
      values.push_back((bits + 0.5) / (noises / 2) - 1);
    }
  }
  auto const count = static_cast<double>(values.size());
  double chi_square = 0;
  for (int const hits : histogram) {
    chi_square += (hits - count / 256) * (hits - count / 256) / (count / 256);
  }
  CHECK(chi_square < 255 + 5 * std::sqrt(2 * 255.0));
  for (std::size_t const distance : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 16U, 128U}) {
    double sum = 0;
    for (std::size_t i = distance; i < values.size(); ++i) {
      sum += values[i] * values[i - distance];
    }
    INFO(distance);
    CHECK(std::fabs(sum / count) < 5 * (1.0 / 3) / std::sqrt(count));
  }
}

}  // namespace zeroth::optim
