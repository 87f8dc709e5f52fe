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
