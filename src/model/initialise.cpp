// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/exact_math.hpp"
#include "core/hash.hpp"
#include "core/isa.hpp"
#include "zeroth/core/philox.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::model {
namespace {

/// One key per parameter. Names are global, so two parameters never share random numbers.
PhiloxKey key_of(std::uint64_t seed, std::string_view name) noexcept {
  auto const hash = spread(Fnv1a{seed * golden_ratio}.characters(name).value());
  return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32U)};
}

/// Maps a word to (0, 1). Never 0, so that the logarithm is finite.
ZEROTH_INLINE double unit_interval(std::uint32_t word) noexcept { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

/// Values per batch of random words: one value for each word, several blocks at a time.
constexpr std::size_t blocks_at_once = 64;
constexpr std::size_t values_at_once = 4 * blocks_at_once;
using Words = std::array<std::uint32_t, values_at_once>;
using Values = std::array<double, values_at_once>;

/// Standard normal: Box and Muller 1958, two values from two words.
struct MakeNormals {
  Words const& words;
  Values& values;

  ZEROTH_INLINE void operator()() const noexcept {
    for (std::size_t pair = 0; pair < values_at_once; pair += 2) {
      double const radius = std::sqrt(-2.0 * logarithm(unit_interval(words[pair])));
      auto const [cosine, sine] = turned(unit_interval(words[pair + 1]));
      values[pair] = radius * cosine;
      values[pair + 1] = radius * sine;
    }
  }
};

struct MakeUniforms {
  Words const& words;
  Values& values;

  ZEROTH_INLINE void operator()() const noexcept {
    for (std::size_t i = 0; i < values_at_once; ++i) {
      values[i] = unit_interval(words[i]);
    }
  }
};

struct Fill {
  PhiloxKey key;
  std::int64_t first;
  std::span<float> out;

  template <class F>
  void each(F const& value_at) const {
    std::int64_t index = first;
    for (float& value : out) {
      value = value_at(index++);
    }
  }
  /// Element i is low + scale times value i % 4 of block i / 4.
  template <class Make>
  void each_random(double low, double scale) const {
    Words words;
    Values values;
    auto const last = first + std::ssize(out);
    for (auto block = first / 4; 4 * block < last; block += static_cast<std::int64_t>(blocks_at_once)) {
      for (std::size_t i = 0; i < blocks_at_once; ++i) {
        auto const counter = static_cast<std::uint64_t>(block) + i;
        auto const four =
            philox(key, {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U), 0, 0});
        std::ranges::copy(four, words.begin() + static_cast<std::ptrdiff_t>(4 * i));
      }
      with_best_isa(Make{words, values});
      auto const begin = std::max(first, 4 * block);
      auto const end = std::min(last, 4 * block + static_cast<std::int64_t>(values_at_once));
      for (auto i = begin; i < end; ++i) {
        out[static_cast<std::size_t>(i - first)] =
            static_cast<float>(low + scale * values[static_cast<std::size_t>(i - 4 * block)]);
      }
    }
  }
  void operator()(Constant const& init) const { std::ranges::fill(out, init.value); }
  void operator()(Normal const& init) const {
    each_random<MakeNormals>(static_cast<double>(init.mean), static_cast<double>(init.stddev));
  }
  void operator()(Uniform const& init) const {
    auto const low = static_cast<double>(init.low);
    each_random<MakeUniforms>(low, static_cast<double>(init.high) - low);
  }
  void operator()(PerElement const& init) const { each(init.value_at); }
  void operator()(FromMemory const& init) const { init.fill(first, out); }
};

}  // namespace

void initialise(std::uint64_t seed, ParamDescription const& param, std::int64_t first, std::span<float> values) {
  auto const key = key_of(seed, param.name);
  if (!param.part) {
    return std::visit(Fill{key, first, values}, param.init);
  }
  param.part->each_run(first, std::ssize(values), [&](CutPart::Run const& run) {
    auto const of_run =
        values.subspan(static_cast<std::size_t>(run.first - first), static_cast<std::size_t>(run.count));
    if (run.is_padding()) {
      std::ranges::fill(of_run, 0.0F);
    } else {
      std::visit(Fill{key, run.in_whole, of_run}, param.init);
    }
  });
}

}  // namespace zeroth::model
