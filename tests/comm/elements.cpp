// SPDX-License-Identifier: Apache-2.0
#include "comm/elements.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace zeroth::comm::conformance {
namespace {

Bits mask(Dtype dtype) noexcept {
  return std::numeric_limits<Bits>::max() >> (64U - 8U * static_cast<unsigned>(bytes_of(dtype)));
}

Bits encode(Dtype dtype, double value) noexcept {
  switch (dtype) {
    case Dtype::fp32: return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case Dtype::bf16: return from_float<bf16>(static_cast<float>(value)).bits;
    case Dtype::fp16: return from_float<fp16>(static_cast<float>(value)).bits;
    case Dtype::fp64: return std::bit_cast<Bits>(value);
    case Dtype::int32:
    case Dtype::int64:
    case Dtype::byte:
    case Dtype::int8: return static_cast<Bits>(static_cast<std::int64_t>(value)) & mask(dtype);
    default: break;
  }
  return 0;
}

double small(int rank, std::int64_t index) noexcept { return static_cast<double>((rank * 11 + index * 7) % 31); }

Bits small_element(Dtype dtype, int rank, std::int64_t index) { return encode(dtype, small(rank, index)); }

Bits small_sum(Dtype dtype, int world, std::int64_t index) {
  double sum = 0;
  for (int rank = 0; rank < world; ++rank) {
    sum += small(rank, index);
  }
  return encode(dtype, sum);
}

bool is_float(Dtype dtype) noexcept {
  return dtype == Dtype::fp32 || dtype == Dtype::bf16 || dtype == Dtype::fp16 || dtype == Dtype::fp64;
}

Bits rough_element(Dtype dtype, int rank, std::int64_t index) {
  std::uint64_t const random = pattern(Dtype::int64, rank, index);
  if (!is_float(dtype)) {
    return random & mask(dtype);
  }
  double const mantissa = 1 + static_cast<double>(random >> 12U) * 0x1p-52;  // [1, 2)
  double const magnitude = std::ldexp(mantissa, static_cast<int>(random % 13) - 6);
  return encode(dtype, (random & 0x800U) != 0 ? -magnitude : magnitude);
}

template <class T>
T decode(Bits bits) noexcept {
  if constexpr (Element<T> && sizeof(T) == 2) {
    return T{static_cast<std::uint16_t>(bits)};
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(static_cast<std::uint32_t>(bits));
  } else {
    return std::bit_cast<T>(bits);
  }
}

/// Adds the ranks' numbers in rank order; for 16-bit types in fp32, rounded once.
template <class T>
Bits float_sum(Dtype dtype, int world, std::int64_t index) {
  auto const wide = [&](int rank) {
    if constexpr (Element<T>) {
      return to_float(decode<T>(rough_element(dtype, rank, index)));
    } else {
      return decode<T>(rough_element(dtype, rank, index));
    }
  };
  auto sum = wide(0);
  for (int rank = 1; rank < world; ++rank) {
    sum = sum + wide(rank);
  }
  return encode(dtype, static_cast<double>(sum));
}

Bits rough_sum(Dtype dtype, int world, std::int64_t index) {
  switch (dtype) {
    case Dtype::fp32: return float_sum<float>(dtype, world, index);
    case Dtype::bf16: return float_sum<bf16>(dtype, world, index);
    case Dtype::fp16: return float_sum<fp16>(dtype, world, index);
    case Dtype::fp64: return float_sum<double>(dtype, world, index);
    default: break;
  }
  Bits sum = 0;
  for (int rank = 0; rank < world; ++rank) {
    sum += rough_element(dtype, rank, index);
  }
  return sum & mask(dtype);
}

}  // namespace

Source const small_numbers{small_element, small_sum};
Source const rough_numbers{rough_element, rough_sum};

std::uint64_t scramble(std::uint64_t value) noexcept {  // the finaliser of SplitMix64
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

Bits pattern(Dtype dtype, int rank, std::int64_t index) noexcept {
  return scramble(static_cast<std::uint64_t>(index) * 1024 + static_cast<std::uint64_t>(rank)) & mask(dtype);
}

}  // namespace zeroth::comm::conformance
