// SPDX-License-Identifier: Apache-2.0
/// Initial values are a function of (seed, name, index) alone, and have the distribution that was asked for.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/ids.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::testing {
namespace {

model::ParamDescription described(std::string name, Init init) {
  model::ParamDescription param;
  param.name = std::move(name);
  param.init = std::move(init);
  return param;
}

std::vector<float> values(std::uint64_t seed, model::ParamDescription const& param, std::int64_t first,
                          std::size_t count) {
  std::vector<float> result(count, -99);
  model::initialise(seed, param, first, result);
  return result;
}

struct Moments {
  double mean = 0, stddev = 0, skew = 0, kurtosis = 0;
};
Moments moments_of(std::span<float const> values) {
  auto const count = static_cast<double>(values.size());
  Moments m;
  for (auto const value : values) {
    m.mean += static_cast<double>(value) / count;
  }
  double square = 0;
  double cube = 0;
  double fourth = 0;
  for (auto const value : values) {
    double const d = static_cast<double>(value) - m.mean;
    square += d * d / count;
    cube += d * d * d / count;
    fourth += d * d * d * d / count;
  }
  m.stddev = std::sqrt(square);
  m.skew = cube / (square * m.stddev);
  m.kurtosis = fourth / (square * square);
  return m;
}

}  // namespace

TEST_CASE("ranges in any order and of any length give the same values") {
  auto const init = GENERATE(Init{Normal{0.5F, 1}}, Init{Uniform{-2, 3}}, Init{Constant{0.125F}},
                             Init{PerElement{[](std::int64_t i) { return static_cast<float>(i * i); }}});
  auto const param = described("w", init);
  constexpr std::size_t count = 1003;
  auto const whole = values(7, param, 0, count);
  for (std::size_t const piece : {1U, 2U, 3U, 5U, 64U, 1000U}) {
    std::vector<float> pieces(count, -99);
    auto const starts = (count + piece - 1) / piece;
    for (std::size_t k = 0; k < starts; ++k) {
      auto const first = (starts - 1 - k) * piece;  // backwards
      model::initialise(7, param, static_cast<std::int64_t>(first),
                        std::span{pieces}.subspan(first, std::min(piece, count - first)));
    }
    INFO("pieces of " << piece);
    CHECK(pieces == whole);
  }
}

TEST_CASE("a range far from the start costs no more and repeats nothing") {
  auto const param = described("w", Normal{1});
  auto const far = values(7, param, (std::int64_t{1} << 40U) + 3, 100);
  auto const start = values(7, param, 0, 100);
  CHECK(far != start);
  CHECK(values(7, param, (std::int64_t{1} << 40U) + 53, 50) == std::vector<float>(far.begin() + 50, far.end()));
}

TEST_CASE("initial values depend only on the seed and the parameter's name") {
  auto param = described("w", Normal{1});
  auto const base = values(1, param, 0, 64);
  CHECK(values(2, param, 0, 64) != base);
  CHECK(values(1, described("v", Normal{1}), 0, 64) != base);
  param.shape = {8, 8};
  param.count = 64;
  param.owner = 3_unit;
  param.ties = {5_unit};
  param.options.trainable = false;
  CHECK(values(1, param, 0, 64) == base);
}

TEST_CASE("seeds and names that look alike are not correlated") {
  constexpr std::size_t count = 20'000;
  auto const correlation = [&](std::vector<float> const& a, std::vector<float> const& b) {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    return sum / count;
  };
  auto const base = values(1, described("h.1.w", Normal{1}), 0, count);
  // The standard deviation of such a mean is 1/sqrt(count) = 0.007.
  CHECK(std::abs(correlation(base, values(2, described("h.1.w", Normal{1}), 0, count))) < 0.035);
  CHECK(std::abs(correlation(base, values(1, described("h.2.w", Normal{1}), 0, count))) < 0.035);
  CHECK(std::abs(correlation(base, values(1, described("h.1.v", Normal{1}), 0, count))) < 0.035);
  CHECK(std::abs(correlation(base, values(1, described("h.1.w", Normal{1}), 1, count))) < 0.035);
}

TEST_CASE("normal values have the same bits with every libm") {
  auto const drawn = values(3, described("w", Normal{1}), 0, 4);
  CHECK(std::bit_cast<std::uint32_t>(drawn[0]) == 0x3fd06e0fU);
  CHECK(std::bit_cast<std::uint32_t>(drawn[1]) == 0xbe1e20f6U);
  CHECK(std::bit_cast<std::uint32_t>(drawn[2]) == 0x3fa030f0U);
  CHECK(std::bit_cast<std::uint32_t>(drawn[3]) == 0xbd0c747cU);
  double square = 0;  // sums of 100,000 values, whose squares are exact
  for (float const value : values(3, described("w", Normal{1}), 0, 100'000)) {
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  CHECK(std::bit_cast<std::uint64_t>(square) == 0x40f8323ae5a9e25aU);
}

TEST_CASE("normal values have the requested moments") {
  auto const drawn = values(3, described("w", Normal{0.02F, 0.5F}), 0, 400'000);
  auto const m = moments_of(drawn);
  CHECK(m.mean == Approx(0.5).margin(0.02 * 0.01));
  CHECK(m.stddev == Approx(0.02).epsilon(0.01));
  CHECK(std::abs(m.skew) < 0.03);
  CHECK(m.kurtosis == Approx(3).margin(0.06));
  CHECK(std::ranges::all_of(drawn, [](float value) { return std::isfinite(value); }));
}

TEST_CASE("uniform values fill their range and stay within it") {
  auto const drawn = values(3, described("w", Uniform{-2, 6}), 0, 400'000);
  auto const [least, most] = std::ranges::minmax(drawn);
  CHECK(least >= -2);
  CHECK(most <= 6);
  CHECK(least < -1.99F);
  CHECK(most > 5.99F);
  auto const m = moments_of(drawn);
  CHECK(m.mean == Approx(2).margin(0.02));
  CHECK(m.stddev == Approx(8 / std::sqrt(12.0)).epsilon(0.01));
  CHECK(m.kurtosis == Approx(1.8).margin(0.02));
}

TEST_CASE("constants and functions are used unchanged") {
  CHECK(values(9, described("w", Constant{0.1F}), 77, 3) == std::vector<float>(3, 0.1F));
  auto const squares = described("w", PerElement{[](std::int64_t i) { return static_cast<float>(i * i); }});
  CHECK(values(9, squares, 5, 3) == std::vector<float>{25, 36, 49});
  CHECK(values(9, squares, 5, 0).empty());
  auto const zeros = values(9, described("w", Normal{0, 4}), 0, 5);
  CHECK(zeros == std::vector<float>(5, 4));
}

}  // namespace zeroth::testing
