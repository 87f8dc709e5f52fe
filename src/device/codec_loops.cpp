// SPDX-License-Identifier: Apache-2.0
#include "device/codec_loops.hpp"

#include <cstring>

#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "device/codec_arithmetic.hpp"

namespace zeroth::device {
namespace {

constexpr std::int64_t block_count = codec_block_count;

/// A block in fp32.
struct Values {
  float at[block_count];

  template <class T>
  ZEROTH_INLINE explicit Values(T const* source) noexcept {
    for (std::int64_t i = 0; i < block_count; ++i) {
      at[i] = to_float(source[i]);
    }
  }
  ZEROTH_INLINE void add(float const* more) noexcept {
    for (std::int64_t i = 0; i < block_count; ++i) {
      at[i] += more[i];
    }
  }
  [[nodiscard]] ZEROTH_INLINE std::uint32_t largest() const noexcept {
    std::uint32_t most = 0;
    for (float const value : at) {
      auto const bits = magnitude_bits(value);
      most = bits > most ? bits : most;
    }
    return most;
  }
};

template <class T>
struct QuantiseBlocks {
  Quantise args;

  ZEROTH_INLINE void operator()() const {
    auto* const values = static_cast<T*>(args.values);
    for (std::int64_t first = 0; first < args.count; first += block_count) {
      quantise_block(values + first);
    }
  }

  ZEROTH_INLINE static void quantise_block(T* block) {
    Values const values{block};
    auto const [scale, inverse, limit] = power_of_two_scale(dtype_of<T>, values.largest());
    for (std::int64_t i = 0; i < block_count; ++i) {
      block[i] = from_float<T>(decode_element(encode_element(values.at[i], inverse, limit), scale));
    }
  }
};

template <Codec codec, class T>
struct EncodeBlocks {
  Encode args;

  ZEROTH_INLINE void operator()() const {
    auto const* source = static_cast<T const*>(args.source);
    auto* destination = args.destination;
    for (std::int64_t block = 0; block < args.count / block_count; ++block) {
      encode_block(source, args.scales, destination);
      source += block_count;
      destination += encoded_block_bytes(codec);
    }
  }

  ZEROTH_INLINE static void encode_block(T const* source, BlockScales scales, std::byte* destination) {
    Values const values{source};
    auto const [scale, inverse, limit] = scale_of(codec, scales, dtype_of<T>, values.largest());
    std::memcpy(destination, &scale, sizeof scale);
    std::int32_t codes[block_count];
    for (std::int64_t i = 0; i < block_count; ++i) {
      codes[i] = encode_element(values.at[i], inverse, limit);
    }
    auto* const bytes = reinterpret_cast<std::uint8_t*>(destination) + sizeof scale;
    if constexpr (codec == Codec::int8) {
      for (std::int64_t i = 0; i < block_count; ++i) {
        bytes[i] = static_cast<std::uint8_t>(codes[i]);
      }
    } else {
      for (std::int64_t i = 0; i < block_count / 2; ++i) {
        bytes[i] = pair_of_codes(codes[i], codes[i + block_count / 2]);
      }
    }
  }
};

template <class T>
struct EncodeBlocks<Codec::sign, T> {
  Encode args;

  ZEROTH_INLINE void operator()() const {
    auto const* source = static_cast<T const*>(args.source);
    auto* destination = args.destination;
    for (std::int64_t first = 0; first < args.count; first += block_count) {
      encode_block(source + first, args.errors + first, destination);
      destination += encoded_block_bytes(Codec::sign);
    }
  }

  ZEROTH_INLINE static void encode_block(T const* source, float* errors, std::byte* destination) {
    Values values{source};
    values.add(errors);
    auto const largest = values.largest();
    std::uint32_t units = 0;
    std::int32_t count = 0;
    for (std::int32_t i = 0; i < block_count; ++i) {
      units += units_of(values.at[i], largest);
      std::int32_t const after = values.at[i] == 0 ? 0 : i + 1;
      count = count > after ? count : after;
    }
    auto const header = header_of_signs(code_of_magnitude(units, count, largest), count);
    std::memcpy(destination, &header, sizeof header);
    std::uint8_t bytes[sign_bytes] = {};
    for (std::int32_t k = 0; k < 8; ++k) {
      for (std::int32_t j = 0; j < sign_bytes; ++j) {
        auto const bit = encode_sign(values.at[k * sign_bytes + j]);
        bytes[j] = static_cast<std::uint8_t>(bytes[j] | bit << static_cast<unsigned>(k));
      }
    }
    std::memcpy(destination + sizeof header, bytes, sizeof bytes);
    if (largest < infinity_bits) {
      float const magnitude = magnitude_of_header(header);
      for (std::int32_t i = 0; i < block_count; ++i) {
        float const decoded = decode_sign(encode_sign(values.at[i]), magnitude);
        errors[i] = i < count_of_header(header) ? values.at[i] - decoded : values.at[i];
      }
    }
  }
};

template <Codec codec, class T>
struct FoldBlocks {
  FoldReceived args;

  ZEROTH_INLINE void operator()() const {
    auto const piece_bytes = encoded_bytes(codec, args.dtype, args.count);
    auto const block_bytes = encoded_bytes(codec, args.dtype, block_count);
    for (std::int64_t first = 0, at = 0; first < args.count; first += block_count, at += block_bytes) {
      float sum[block_count];
      int rank = 0;
      if (args.accumulate) {
        std::memcpy(sum, args.sums + first, sizeof sum);
      } else {
        decode(args.received + at, [&](std::int64_t i, float value) { sum[i] = value; });
        rank = 1;
      }
      for (; rank < args.ranks; ++rank) {
        decode(args.received + rank * piece_bytes + at, [&](std::int64_t i, float value) { sum[i] += value; });
      }
      if (args.sums != nullptr) {
        std::memcpy(args.sums + first, sum, sizeof sum);
      } else {
        auto* const output = static_cast<T*>(args.output) + first;
        for (std::int64_t i = 0; i < block_count; ++i) {
          output[i] = from_float<T>(sum[i]);
        }
      }
    }
  }

  template <class Use>
  ZEROTH_INLINE static void decode(std::byte const* block, Use const& use) {
    if constexpr (codec == Codec::exact) {
      auto const* const values = reinterpret_cast<T const*>(block);
      for (std::int64_t i = 0; i < block_count; ++i) {
        use(i, to_float(values[i]));
      }
    } else if constexpr (codec == Codec::sign) {
      std::uint16_t header = 0;
      std::memcpy(&header, block, sizeof header);
      auto const* const bytes = reinterpret_cast<std::uint8_t const*>(block) + sizeof header;
      float const magnitude = magnitude_of_header(header);
      auto const count = count_of_header(header);
      for (std::int32_t k = 0; k < 8; ++k) {
        for (std::int32_t j = 0; j < sign_bytes; ++j) {
          auto const i = k * sign_bytes + j;
          float const value = decode_sign(bytes[j] >> static_cast<unsigned>(k) & 1U, magnitude);
          use(i, i < count ? value : 0.0F);
        }
      }
    } else {
      float scale = 0;
      std::memcpy(&scale, block, sizeof scale);
      auto const* const codes = reinterpret_cast<std::uint8_t const*>(block) + sizeof scale;
      if constexpr (codec == Codec::int8) {
        for (std::int64_t i = 0; i < block_count; ++i) {
          use(i, decode_element(static_cast<std::int8_t>(codes[i]), scale));
        }
      } else {
        for (std::int64_t i = 0; i < block_count / 2; ++i) {
          use(i, decode_element(first_code(codes[i]), scale));
        }
        for (std::int64_t i = 0; i < block_count / 2; ++i) {
          use(i + block_count / 2, decode_element(second_code(codes[i]), scale));
        }
      }
    }
  }
};

template <template <Codec, class> class Body, class Args>
void run(Args const& args) noexcept {
  with_element(args.dtype, [&]<class T>(std::type_identity<T>) {
    switch (args.codec) {
      case Codec::none: return;
      case Codec::exact:
        if constexpr (std::is_same_v<Args, FoldReceived>) {
          with_best_isa(Body<Codec::exact, T>{args});
        }
        return;
      case Codec::int8: return with_best_isa(Body<Codec::int8, T>{args});
      case Codec::int4: return with_best_isa(Body<Codec::int4, T>{args});
      case Codec::sign: return with_best_isa(Body<Codec::sign, T>{args});
    }
  });
}

}  // namespace

void encode(Encode const& args) noexcept { run<EncodeBlocks>(args); }

void quantise(Quantise const& args) noexcept {
  with_element(args.dtype, [&]<class T>(std::type_identity<T>) { with_best_isa(QuantiseBlocks<T>{args}); });
}

void fold_received(FoldReceived const& args) noexcept { run<FoldBlocks>(args); }

}  // namespace zeroth::device
