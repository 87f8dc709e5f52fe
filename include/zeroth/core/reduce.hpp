// SPDX-License-Identifier: Apache-2.0
/// Reduce operators: how a reduction combines the ranks' elements.
#pragma once
#include <cstdint>
#include <string_view>

#include "zeroth/core/dtype.hpp"

namespace zeroth {

/// The operators of MPI (MPI 4.1, section 6.9), and the average. Elements are folded in rank order, e0 first, then e1,
/// so that the result has the same bits everywhere (except over NCCL: see comm::supports()):
///
/// | operator                                | elements                        | result                               |
/// |-----------------------------------------|---------------------------------|--------------------------------------|
/// | sum, product                            | numbers                         | bf16, fp16: in fp32, rounded once;   |
/// |                                         |                                 | integers wrap around                 |
/// | maximum, minimum                        | numbers                         | a NaN if any is; of equals the first |
/// | average                                 | fp32, bf16, fp16, fp64          | the sum times 1 / W, in fp32 or fp64,|
/// |                                         |                                 | rounded once                         |
/// | premul_sum                              | fp32, bf16, fp16, fp64          | the sum of elements times one factor,|
/// |                                         |                                 | in fp32 or fp64, rounded once        |
/// | logical_and, logical_or, logical_xor    | int32, int64, int8, byte        | 0 or 1; every element but 0 is true  |
/// | bit_and, bit_or, bit_xor                | int32, int64, int8, byte        |                                      |
/// | max_location, min_location              | Located, as the three dtypes    | the element with the largest, or     |
/// |                                         | fp32_location, int32_location,  | smallest, value, whole; the first of |
/// |                                         | fp64_location                   | equals; the first NaN, if there is   |
///
/// "The first" is the lowest rank's element; MPI takes the lowest location instead. Bytes are unsigned. A
/// `bool` is a byte of 0 or 1: logical_or and maximum are its "any", logical_and and minimum its "all".
enum class Reduce : std::uint8_t {
  sum,
  product,
  maximum,
  minimum,
  average,
  premul_sum,
  logical_and,
  logical_or,
  logical_xor,
  bit_and,
  bit_or,
  bit_xor,
  max_location,
  min_location
};

/// The name in messages: "max_location".
[[nodiscard]] constexpr std::string_view name_of(Reduce reduce) noexcept {
  switch (reduce) {
    case Reduce::sum: return "sum";
    case Reduce::product: return "product";
    case Reduce::maximum: return "maximum";
    case Reduce::minimum: return "minimum";
    case Reduce::average: return "average";
    case Reduce::premul_sum: return "premul_sum";
    case Reduce::logical_and: return "logical_and";
    case Reduce::logical_or: return "logical_or";
    case Reduce::logical_xor: return "logical_xor";
    case Reduce::bit_and: return "bit_and";
    case Reduce::bit_or: return "bit_or";
    case Reduce::bit_xor: return "bit_xor";
    case Reduce::max_location: return "max_location";
    case Reduce::min_location: return "min_location";
  }
  return "?";
}

/// Whether elements of `dtype` are Located.
[[nodiscard]] constexpr bool is_location(Dtype dtype) noexcept {
  return dtype == Dtype::fp32_location || dtype == Dtype::int32_location || dtype == Dtype::fp64_location;
}

/// Whether the table defines `reduce` for `dtype`.
[[nodiscard]] constexpr bool is_defined(Reduce reduce, Dtype dtype) noexcept {
  bool const integer = dtype == Dtype::int32 || dtype == Dtype::int64 || dtype == Dtype::int8 || dtype == Dtype::byte;
  switch (reduce) {
    case Reduce::sum:
    case Reduce::product:
    case Reduce::maximum:
    case Reduce::minimum: return bytes_of(dtype) > 0 && !is_location(dtype);
    case Reduce::average:
    case Reduce::premul_sum: return bytes_of(dtype) > 0 && !is_location(dtype) && !integer;
    case Reduce::logical_and:
    case Reduce::logical_or:
    case Reduce::logical_xor:
    case Reduce::bit_and:
    case Reduce::bit_or:
    case Reduce::bit_xor: return integer;
    case Reduce::max_location:
    case Reduce::min_location: return is_location(dtype);
  }
  return false;
}

}  // namespace zeroth
