// SPDX-License-Identifier: Apache-2.0
/// Every reduce operator as a plain fold of one element after the other, and elements to fold.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "comm/elements.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/reduce.hpp"

namespace zeroth::comm::conformance {

template <class T>
inline constexpr bool is_located =
    std::is_same_v<T, LocatedFp32> || std::is_same_v<T, LocatedInt32> || std::is_same_v<T, LocatedFp64>;

// ---- the ranks' elements --------------------------------------------------------------------------------------------

/// Few different numbers, so that ranks often contribute equal ones; among floats zeros of both signs, infinities and
/// NaNs.
template <class T>
T number(std::uint64_t random) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (random % 64) {
      case 0: return std::numeric_limits<T>::quiet_NaN();
      case 1: return -std::numeric_limits<T>::infinity();
      case 2: return std::numeric_limits<T>::infinity();
      case 3: return -T{0};
      case 4: return T{0};
      default: return static_cast<T>(static_cast<std::int64_t>(random % 29) - 14) / T{8};
    }
  } else {
    return random % 3 == 0 ? T{0} : static_cast<T>(random >> (random % 5 == 0 ? 1U : 59U));
  }
}

template <class T>
T element(int rank, std::int64_t index) {
  std::uint64_t const random = scramble(scramble(static_cast<std::uint64_t>(index)) + static_cast<std::uint64_t>(rank));
  if constexpr (is_located<T>) {
    T located{};
    located.value = number<decltype(located.value)>(random);
    located.location = static_cast<decltype(located.location)>(1'000'000 * rank + index);
    return located;
  } else if constexpr (Element<T>) {
    return from_float<T>(number<float>(random));
  } else {
    return number<T>(random);
  }
}

// ---- the result -----------------------------------------------------------------------------------------------------

/// The factor of premul_sum: exact in every dtype, so that NCCL does not round it. Products and their sum are rounded.
inline constexpr double factor = 0.6875;
inline double factor_of(Reduce reduce) { return reduce == Reduce::premul_sum ? factor : 1; }

/// The mathematical definition, without regard for speed.
template <class W>
W fold(Reduce reduce, std::vector<W> const& values) {
  if constexpr (std::is_floating_point_v<W>) {
    if (reduce == Reduce::premul_sum) {
      W sum = values[0] * static_cast<W>(factor);
      for (std::size_t rank = 1; rank < values.size(); ++rank) {
        W const product = values[rank] * static_cast<W>(factor);
        sum = sum + product;
      }
      return sum;
    }
  }
  if constexpr (std::is_floating_point_v<W>) {
    bool const bounds = reduce == Reduce::maximum || reduce == Reduce::minimum;
    for (W const value : values) {
      if (bounds && std::isnan(value)) {
        return value;
      }
    }
  }
  W result = values[0];
  bool truth = values[0] != W{0};
  for (std::size_t rank = 1; rank < values.size(); ++rank) {
    W const value = values[rank];
    bool const other = value != W{0};
    if constexpr (std::is_integral_v<W>) {
      using U = std::make_unsigned_t<W>;
      auto const a = static_cast<std::uint64_t>(static_cast<U>(result)),
                 b = static_cast<std::uint64_t>(static_cast<U>(value));
      switch (reduce) {
        case Reduce::sum: result = static_cast<W>(a + b); continue;
        case Reduce::product: result = static_cast<W>(a * b); continue;
        case Reduce::bit_and: result = static_cast<W>(a & b); continue;
        case Reduce::bit_or: result = static_cast<W>(a | b); continue;
        case Reduce::bit_xor: result = static_cast<W>(a ^ b); continue;
        case Reduce::logical_and: truth = truth && other; continue;
        case Reduce::logical_or: truth = truth || other; continue;
        case Reduce::logical_xor: truth = truth != other; continue;
        default: break;
      }
    }
    switch (reduce) {
      case Reduce::sum:
      case Reduce::average: result = static_cast<W>(result + value); break;
      case Reduce::product: result = static_cast<W>(result * value); break;
      case Reduce::maximum: result = value > result ? value : result; break;
      case Reduce::minimum: result = value < result ? value : result; break;
      default: break;
    }
  }
  switch (reduce) {
    case Reduce::average: return static_cast<W>(result * (W{1} / static_cast<W>(values.size())));
    case Reduce::logical_and:
    case Reduce::logical_or:
    case Reduce::logical_xor: return truth ? W{1} : W{0};
    default: return result;
  }
}

template <class T>
T expected(Reduce reduce, int world, std::int64_t index) {
  if constexpr (is_located<T>) {
    T best = element<T>(0, index);
    for (int rank = 1; rank < world && !std::isnan(static_cast<double>(best.value)); ++rank) {
      T const each = element<T>(rank, index);
      bool const beyond = reduce == Reduce::max_location ? each.value > best.value : each.value < best.value;
      best = beyond || std::isnan(static_cast<double>(each.value)) ? each : best;
    }
    return best;
  } else if constexpr (Element<T>) {
    std::vector<float> values;
    for (int rank = 0; rank < world; ++rank) {
      values.push_back(to_float(element<T>(rank, index)));
    }
    return from_float<T>(fold(reduce, values));
  } else {
    std::vector<T> values;
    for (int rank = 0; rank < world; ++rank) {
      values.push_back(element<T>(rank, index));
    }
    return fold(reduce, values);
  }
}

/// The same bits, or both NaN (a NaN's payload depends on the device); for locations the same value and location.
template <class T>
bool same(T a, T b) {
  if constexpr (is_located<T>) {
    return same(a.value, b.value) && a.location == b.location;
  } else if constexpr (Element<T>) {
    return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(to_float(a)) && std::isnan(to_float(b)));
  } else {
    return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
  }
}

}  // namespace zeroth::comm::conformance
