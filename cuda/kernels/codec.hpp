// SPDX-License-Identifier: Apache-2.0
/// Codecs: what ranks send, and the sum of what they have sent. A warp has a block of codec_block_count elements.
#pragma once
#include <cuda_runtime_api.h>

#include <cmath>

#include "core/dispatch.hpp"
#include "cuda/packs.hpp"
#include "device/codec_arithmetic.hpp"
#include "device/kernels.hpp"

namespace zeroth::cuda {

/// The division of encoded blocks among the warps of a thread block.
struct CodecBlocks {
  static constexpr int threads = 256, warps = threads / warp_threads;
  static constexpr int per_thread = static_cast<int>(codec_block_count) / warp_threads;

  std::int64_t blocks;

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles() const { return (blocks + warps - 1) / warps; }
  [[nodiscard]] ZEROTH_DEVICE std::int64_t block_of(std::int64_t tile, int thread) const {
    return tile * warps + thread / warp_threads;
  }
  /// The first of a thread's elements in its block.
  [[nodiscard]] static ZEROTH_DEVICE int first_of(int thread) { return thread % warp_threads * per_thread; }
};

template <Codec codec, class T>
struct EncodeBlocks : CodecBlocks {
  struct Shared {
    float scale[warps];
  };

  T const* source;
  std::byte* destination;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    PerThread<Pack<float, per_thread>, Block> values;
    PerThread<float, Block> largest;
    PerThread<float, Block> poison;
    for (std::int64_t tile = block.index(); tile < tiles(); tile += block.count()) {
      block.alone([&](int thread) {
        auto const at = block_of(tile, thread);
        largest[thread] = poison[thread] = 0;
        if (at >= blocks) {
          return;
        }
        auto const in = load<per_thread>(source + at * codec_block_count + first_of(thread));
        for (int k = 0; k < per_thread; ++k) {
          float const value = to_float(in.at[k]);
          values[thread].at[k] = value;
          largest[thread] = std::fmax(largest[thread], std::fabs(value));
          poison[thread] += value * 0;
        }
      });
      block.fold_warps(largest, [](float a, float b) { return std::fmax(a, b); });
      block.fold_warps(poison, [](float a, float b) { return a + b; });
      block.phase([&](int thread) {
        if (thread % warp_threads == 0) {
          shared.scale[thread / warp_threads] = device::scale_of(codec, largest[thread], poison[thread]);
        }
      });
      block.phase([&](int thread) {
        if (auto const at = block_of(tile, thread); at < blocks) {
          write(at, thread, values[thread], shared.scale[thread / warp_threads]);
        }
      });
    }
  }

 private:
  ZEROTH_DEVICE void write(std::int64_t at, int thread, Pack<float, per_thread> const& values, float scale) const {
    auto* const to = destination + at * encoded_block_bytes(codec);
    float const inverse = device::inverse_of(scale);
    std::int32_t codes[per_thread];
    for (int k = 0; k < per_thread; ++k) {
      codes[k] = device::encode_element(values.at[k], inverse, device::largest_code(codec));
    }
    if (thread % warp_threads == 0) {
      *reinterpret_cast<float*>(to) = scale;
    }
    auto* const bytes = reinterpret_cast<std::uint8_t*>(to + sizeof scale);
    if constexpr (codec == Codec::int8) {
      Pack<std::uint8_t, per_thread> out;
      for (int k = 0; k < per_thread; ++k) {
        out.at[k] = static_cast<std::uint8_t>(codes[k]);
      }
      store(bytes + first_of(thread), out);
    } else {
      Pack<std::uint8_t, per_thread / 2> out;
      for (int k = 0; k < per_thread / 2; ++k) {
        out.at[k] = device::pair_of_codes(codes[2 * k], codes[2 * k + 1]);
      }
      store(bytes + first_of(thread) / 2, out);
    }
  }
};

template <Codec codec, class T>
struct FoldBlocks : CodecBlocks {
  struct Shared {};

  std::byte const* received;
  int ranks;
  std::int64_t piece_bytes;  // of a rank
  T* output;
  float* sums;
  bool accumulate;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.alone([&](int thread) {
      for (std::int64_t tile = block.index(); tile < tiles(); tile += block.count()) {
        if (auto const at = block_of(tile, thread); at < blocks) {
          fold(at, first_of(thread));
        }
      }
    });
  }

 private:
  ZEROTH_DEVICE void fold(std::int64_t at, int first) const {
    auto const element = at * codec_block_count + first;
    int rank = accumulate ? 0 : 1;
    auto sum = accumulate ? load<per_thread>(sums + element) : decoded(received, at, first);
    for (; rank < ranks; ++rank) {
      auto const more = decoded(received + rank * piece_bytes, at, first);
      for (int k = 0; k < per_thread; ++k) {
        sum.at[k] += more.at[k];
      }
    }
    if (sums != nullptr) {
      store(sums + element, sum);
      return;
    }
    Pack<T, per_thread> out;
    for (int k = 0; k < per_thread; ++k) {
      out.at[k] = from_float<T>(sum.at[k]);
    }
    store(output + element, out);
  }

  [[nodiscard]] static ZEROTH_DEVICE Pack<float, per_thread> decoded(std::byte const* piece, std::int64_t at,
                                                                     int first) {
    Pack<float, per_thread> values;
    if constexpr (codec == Codec::exact) {
      auto const in = load<per_thread>(reinterpret_cast<T const*>(piece) + at * codec_block_count + first);
      for (int k = 0; k < per_thread; ++k) {
        values.at[k] = to_float(in.at[k]);
      }
    } else {
      auto const* const from = piece + at * encoded_block_bytes(codec);
      float const scale = *reinterpret_cast<float const*>(from);
      auto const* const bytes = reinterpret_cast<std::uint8_t const*>(from + sizeof scale);
      if constexpr (codec == Codec::int8) {
        auto const codes = load<per_thread>(bytes + first);
        for (int k = 0; k < per_thread; ++k) {
          values.at[k] = device::decode_element(static_cast<std::int8_t>(codes.at[k]), scale);
        }
      } else {
        auto const pairs = load<per_thread / 2>(bytes + first / 2);
        for (int k = 0; k < per_thread / 2; ++k) {
          values.at[2 * k] = device::decode_element(device::first_code(pairs.at[k]), scale);
          values.at[2 * k + 1] = device::decode_element(device::second_code(pairs.at[k]), scale);
        }
      }
    }
    return values;
  }
};

template <class Launch>
[[nodiscard]] cudaError_t launch_encode(Launch const& launch, device::Encode const& args) {
  cudaError_t result = cudaSuccess;
  with_element(args.dtype, [&]<class T>(std::type_identity<T>) {
    auto const run = [&]<Codec codec>(std::integral_constant<Codec, codec>) {
      EncodeBlocks<codec, T> const body{
          {args.count / codec_block_count}, static_cast<T const*>(args.source), args.destination};
      result = body.blocks == 0 ? cudaSuccess : launch(body, body.tiles());
    };
    if (args.codec == Codec::int8) {
      run(std::integral_constant<Codec, Codec::int8>{});
    } else {
      run(std::integral_constant<Codec, Codec::int4>{});
    }
  });
  return result;
}

template <class Launch>
[[nodiscard]] cudaError_t launch_fold_received(Launch const& launch, device::FoldReceived const& args) {
  cudaError_t result = cudaSuccess;
  with_element(args.dtype, [&]<class T>(std::type_identity<T>) {
    auto const run = [&]<Codec codec>(std::integral_constant<Codec, codec>) {
      FoldBlocks<codec, T> const body{
          {args.count / codec_block_count}, args.received, args.ranks,     encoded_bytes(codec, args.dtype, args.count),
          static_cast<T*>(args.output),     args.sums,     args.accumulate};
      result = body.blocks == 0 ? cudaSuccess : launch(body, body.tiles());
    };
    switch (args.codec) {
      case Codec::none: return;
      case Codec::exact: return run(std::integral_constant<Codec, Codec::exact>{});
      case Codec::int8: return run(std::integral_constant<Codec, Codec::int8>{});
      case Codec::int4: return run(std::integral_constant<Codec, Codec::int4>{});
    }
  });
  return result;
}

}  // namespace zeroth::cuda
