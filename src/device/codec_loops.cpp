// SPDX-License-Identifier: Apache-2.0
#include "device/codec_loops.hpp"

#include <cmath>
#include <cstring>

#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "device/codec_arithmetic.hpp"

namespace zeroth::device {
namespace {

constexpr std::int64_t block_count = codec_block_count;
/// Maxima are independent in as many lanes, so that compilers vectorise them. A maximum has no order.
constexpr std::int64_t lanes = 16;
static_assert(block_count % lanes == 0);

template <Codec codec, class T>
struct EncodeBlocks {
  Encode args;

  ZEROTH_INLINE void operator()() const {
    auto const* source = static_cast<T const*>(args.source);
    auto* destination = args.destination;
    for (std::int64_t block = 0; block < args.count / block_count; ++block) {
      encode_block(source, destination);
      source += block_count;
      destination += encoded_block_bytes(codec);
    }
  }

  ZEROTH_INLINE static void encode_block(T const* source, std::byte* destination) {
    float values[block_count];
    float largest[lanes] = {};
    float poison[lanes] = {};
    for (std::int64_t i = 0; i < block_count; i += lanes) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        float const value = to_float(source[i + lane]);
        float const magnitude = std::fabs(value);
        values[i + lane] = value;
        largest[lane] = magnitude > largest[lane] ? magnitude : largest[lane];
        poison[lane] += value * 0;
      }
    }
    for (std::int64_t lane = 1; lane < lanes; ++lane) {
      largest[0] = largest[lane] > largest[0] ? largest[lane] : largest[0];
      poison[0] += poison[lane];
    }
    float const scale = scale_of(codec, largest[0], poison[0]);
    float const inverse = inverse_of(scale);
    std::memcpy(destination, &scale, sizeof scale);
    auto* const codes = reinterpret_cast<std::uint8_t*>(destination) + sizeof scale;
    if constexpr (codec == Codec::int8) {
      for (std::int64_t i = 0; i < block_count; ++i) {
        codes[i] = static_cast<std::uint8_t>(encode_element(values[i], inverse, largest_code(codec)));
      }
    } else {
      for (std::int64_t i = 0; i < block_count / 2; ++i) {
        codes[i] = pair_of_codes(encode_element(values[2 * i], inverse, largest_code(codec)),
                                 encode_element(values[2 * i + 1], inverse, largest_code(codec)));
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
          use(2 * i, decode_element(first_code(codes[i]), scale));
          use(2 * i + 1, decode_element(second_code(codes[i]), scale));
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

void fold_received(FoldReceived const& args) noexcept { run<FoldBlocks>(args); }

}  // namespace zeroth::device
