// SPDX-License-Identifier: Apache-2.0
/// Runs code once per instruction set of this machine, and makes its input.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/isa_choice.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::testing {

[[nodiscard]] inline std::vector<Isa> all_isas() {
  std::vector<Isa> isas;
  for (Isa const isa : {Isa::plain, Isa::avx2, Isa::avx512}) {
    if (isa <= best_isa()) {
      isas.push_back(isa);
    }
  }
  return isas;
}

[[nodiscard]] inline std::string_view name_of(Isa isa) {
  constexpr std::string_view names[] = {"plain", "avx2", "avx512"};
  return names[static_cast<int>(isa)];
}

/// While this lives, the library's loops use `isa`.
class WithIsa {
 public:
  explicit WithIsa(Isa isa) { choose_isa(isa); }
  ~WithIsa() { choose_isa(best_isa()); }
  WithIsa(WithIsa const&) = delete;
  WithIsa& operator=(WithIsa const&) = delete;
};

enum class Numbers { ordinary, any_finite, any };

/// Ordinary numbers are normal, of magnitude about 1. `any` also includes random bits: subnormal, tiny, huge, zero.
[[nodiscard]] inline std::vector<float> random_floats(std::int64_t count, Numbers numbers, std::uint32_t seed) {
  std::mt19937 bits{seed};
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (numbers == Numbers::ordinary) {
      values[i] = normal(bits);
      continue;
    }
    do {
      std::uint32_t pattern = static_cast<std::uint32_t>(bits());
      if (i % 7 == 0) {
        pattern &= 0x807fffffU;  // subnormal, or zero
      } else if (i % 7 == 1) {
        pattern = (pattern & 0x80ffffffU) | 0x33000000U;  // where fp16 is subnormal
      } else if (i % 7 == 2) {
        pattern = (pattern & 0x80ffffffU) | 0x47000000U;  // where fp16 overflows
      } else if (i % 7 == 3 && numbers == Numbers::any) {
        pattern |= 0x7f800000U;
      }
      values[i] = std::bit_cast<float>(pattern);
    } while (numbers == Numbers::any_finite && !std::isfinite(values[i]));
  }
  return values;
}

template <Element T>
[[nodiscard]] std::vector<T> rounded(std::vector<float> const& values) {
  std::vector<T> result;
  for (float const value : values) {
    result.push_back(from_float<T>(value));
  }
  return result;
}

/// Random values of any dtype: integers with random bits, doubles in [0, 16).
template <class T>
[[nodiscard]] std::vector<T> random_values(std::int64_t count, std::uint32_t seed, Numbers numbers) {
  if constexpr (Element<T>) {
    return rounded<T>(random_floats(count, numbers, seed));
  } else {
    std::mt19937_64 random{seed};
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& value : values) {
      value = std::is_same_v<T, double> ? static_cast<T>(std::ldexp(static_cast<double>(random()), -60))
                                        : static_cast<T>(random());
    }
    return values;
  }
}

/// Equal bits, or both NaN. A NaN's payload depends on the order of operands, on which no program can rely.
template <Element T>
[[nodiscard]] bool same_number(T a, T b) {
  return (std::isnan(to_float(a)) && std::isnan(to_float(b))) ||
         std::bit_cast<std::uint32_t>(to_float(a)) == std::bit_cast<std::uint32_t>(to_float(b));
}

/// Index of the first element that differs, or -1.
template <Element T>
[[nodiscard]] std::int64_t first_difference(std::vector<T> const& a, std::vector<T> const& b) {
  if (a.size() != b.size()) {
    return 0;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_number(a[i], b[i])) {
      return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

}  // namespace zeroth::testing
