// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <string_view>

#include "core/exact_math.hpp"
#include "core/hash.hpp"
#include "core/philox.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::model {
namespace {

/// A key per parameter: names are global, so two parameters never share random numbers.
PhiloxKey key_of(std::uint64_t seed, std::string_view name) noexcept {
  auto const hash = spread(Fnv1a{seed * golden_ratio}.characters(name).value());
  return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32U)};
}

/// In (0, 1): never 0, so that its logarithm is finite.
double unit_interval(std::uint32_t word) noexcept { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

using Values = std::array<double, 4>;

/// Standard normal: Box and Muller 1958, two values from two words.
Values normals(PhiloxWords const& words) noexcept {
  Values values;
  for (std::size_t pair = 0; pair < values.size(); pair += 2) {
    double const radius = std::sqrt(-2.0 * logarithm(unit_interval(words[pair])));
    auto const [cosine, sine] = turned(unit_interval(words[pair + 1]));
    values[pair] = radius * cosine;
    values[pair + 1] = radius * sine;
  }
  return values;
}

Values uniforms(PhiloxWords const& words) noexcept {
  return {unit_interval(words[0]), unit_interval(words[1]), unit_interval(words[2]), unit_interval(words[3])};
}

struct Fill {
  PhiloxKey key;
  std::int64_t first;
  std::span<float> values;

  template <class F>
  void each(F const& value_at) const {
    std::int64_t index = first;
    for (float& value : values) {
      value = value_at(index++);
    }
  }
  /// Element i is low + scale times value i % 4 of block i / 4.
  template <class F>
  void each_random(double low, double scale, F const& values_of) const {
    Values block{};
    std::int64_t have = -1;
    each([&](std::int64_t index) {
      if (index / 4 != have) {
        have = index / 4;
        block =
            values_of(philox(key, {static_cast<std::uint32_t>(have), static_cast<std::uint32_t>(have >> 32U), 0, 0}));
      }
      return static_cast<float>(low + scale * block[static_cast<std::size_t>(index % 4)]);
    });
  }
  void operator()(Constant const& init) const {
    each([&](std::int64_t) { return init.value; });
  }
  void operator()(Normal const& init) const {
    each_random(static_cast<double>(init.mean), static_cast<double>(init.stddev), normals);
  }
  void operator()(Uniform const& init) const {
    auto const low = static_cast<double>(init.low);
    each_random(low, static_cast<double>(init.high) - low, uniforms);
  }
  void operator()(PerElement const& init) const { each(init.value_at); }
  void operator()(FromMemory const& init) const { init.fill(first, values); }
};

}  // namespace

void initialise(std::uint64_t seed, ParamDescription const& param, std::int64_t first, std::span<float> values) {
  std::visit(Fill{key_of(seed, param.name), first, values}, param.init);
}

}  // namespace zeroth::model
