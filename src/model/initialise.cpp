#include <cmath>
#include <numbers>
#include <string_view>

#include "core/fnv.hpp"
#include "model/philox.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::model {
namespace {

/// A key per parameter: names are global, so two parameters never share random numbers.
std::array<std::uint32_t, 2> key_of(std::uint64_t seed, std::string_view name) noexcept {
  auto hash = Fnv1a{seed * 0x9E3779B97F4A7C15ULL}.characters(name).value();
  hash ^= hash >> 29U;
  hash *= 0xBF58476D1CE4E5B9ULL;
  hash ^= hash >> 32U;
  return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32U)};
}

/// In (0, 1): never 0, so that its logarithm is finite.
double unit_interval(std::uint32_t word) noexcept { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

/// Element `lane` of block `words`, standard normal: Box and Muller 1958, two elements from two words.
double normal(Words const& words, std::size_t lane) noexcept {
  std::size_t const pair = lane & ~std::size_t{1};
  double const radius = std::sqrt(-2.0 * std::log(unit_interval(words[pair])));
  double const angle = 2.0 * std::numbers::pi * unit_interval(words[pair + 1]);
  return radius * ((lane & 1U) == 0 ? std::cos(angle) : std::sin(angle));
}

struct Fill {
  std::array<std::uint32_t, 2> key;
  std::int64_t first;
  std::span<float> values;

  template <class F>
  void each(F const& value_at) const {
    std::int64_t index = first;
    for (float& value : values) {
      value = value_at(index++);
    }
  }
  template <class F>
  void each_random(F const& value_of) const {
    Words words{};
    std::int64_t have = -1;
    each([&](std::int64_t index) {
      if (index / 4 != have) {
        have = index / 4;
        words = philox(key, {static_cast<std::uint32_t>(have), static_cast<std::uint32_t>(have >> 32U), 0, 0});
      }
      return static_cast<float>(value_of(words, static_cast<std::size_t>(index % 4)));
    });
  }
  void operator()(Constant const& init) const {
    each([&](std::int64_t) { return init.value; });
  }
  void operator()(Normal const& init) const {
    each_random([&](Words const& words, std::size_t lane) {
      return static_cast<double>(init.mean) + static_cast<double>(init.stddev) * normal(words, lane);
    });
  }
  void operator()(Uniform const& init) const {
    auto const low = static_cast<double>(init.low);
    auto const width = static_cast<double>(init.high) - low;
    each_random([&](Words const& words, std::size_t lane) { return low + width * unit_interval(words[lane]); });
  }
  void operator()(PerElement const& init) const { each(init.value_at); }
};

}  // namespace

void initialise(std::uint64_t seed, ParamDescription const& param, std::int64_t first, std::span<float> values) {
  std::visit(Fill{key_of(seed, param.name), first, values}, param.init);
}

}  // namespace zeroth::model
