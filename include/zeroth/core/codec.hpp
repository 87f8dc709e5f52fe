// SPDX-License-Identifier: Apache-2.0
/// How elements are encoded while they travel between ranks.
#pragma once
#include <cstdint>
#include <string_view>

#include "zeroth/core/dtype.hpp"

namespace zeroth {

/// The encoding of what ranks send. With any other than `none` each rank receives the gradients that it reduces from
/// all ranks, decodes them, and adds them up in rank order in fp32. Parameters are gathered with `none` or `int8`.
enum class Codec : std::uint8_t {
  none,   ///< Elements travel as they are, and the transport adds them up.
  exact,  ///< Elements travel as they are.
  int8,   ///< An integer from -127 to 127 for each element, and an fp32 scale for each block.
  int4,   ///< An integer from -7 to 7 for each element, and an fp32 scale for each block.
  sign    ///< The sign of each element, and one magnitude for each block. What that loses is added in the next step.
};

/// Elements per block of `int8`, `int4` and `sign`, counted from the start of each parameter.
inline constexpr std::int64_t codec_block_count = 128;

/// The name in stage files.
[[nodiscard]] constexpr std::string_view name_of(Codec codec) noexcept {
  switch (codec) {
    case Codec::none: return "none";
    case Codec::exact: return "exact";
    case Codec::int8: return "int8";
    case Codec::int4: return "int4";
    case Codec::sign: return "sign";
  }
  return "?";
}

/// The scales of encoded blocks.
enum class BlockScales : bool {
  tight,         ///< The largest magnitude divided by the largest integer: the smallest errors.
  powers_of_two  ///< For `int8`: decoded elements are exact in bf16 and fp16, and encode to the same block again.
};

/// Whether elements travel as they are.
[[nodiscard]] constexpr bool keeps_elements(Codec codec) noexcept {
  return codec == Codec::none || codec == Codec::exact;
}

/// Bytes of an encoded block: of `int8` and `int4` the scale, then the integers; of `sign` two bytes, then the signs.
[[nodiscard]] constexpr std::int64_t encoded_block_bytes(Codec codec) noexcept {
  return codec == Codec::sign ? 2 + codec_block_count / 8
                              : 4 + (codec == Codec::int8 ? codec_block_count : codec_block_count / 2);
}

/// Bytes of `count` encoded elements of `dtype`. For `int8`, `int4` and `sign` they are whole blocks.
[[nodiscard]] constexpr std::int64_t encoded_bytes(Codec codec, Dtype dtype, std::int64_t count) noexcept {
  return keeps_elements(codec) ? count * bytes_of(dtype) : count / codec_block_count * encoded_block_bytes(codec);
}

}  // namespace zeroth
