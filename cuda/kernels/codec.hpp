// SPDX-License-Identifier: Apache-2.0
/// Codecs: what ranks send, and the sum of what they have sent. A warp has a block of codec_block_count elements.
#pragma once
#include <cuda_runtime_api.h>

#include "core/dispatch.hpp"
#include "cuda/packs.hpp"
#include "device/codec_arithmetic.hpp"
#include "device/kernels.hpp"

namespace zeroth::cuda {

/// The division of encoded blocks among the warps of a thread block.
struct CodecBlocks {
  static constexpr int threads = 256, warps = threads / warp_threads;
  static constexpr int half_count = static_cast<int>(codec_block_count) / 2;
  /// A thread has two elements of each half of a block: in `int4` halves share bytes.
  static constexpr int per_half = half_count / warp_threads;
  using Values = Pack<float, 2 * per_half>;

  std::int64_t blocks;

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles() const { return (blocks + warps - 1) / warps; }
  [[nodiscard]] ZEROTH_DEVICE std::int64_t block_of(std::int64_t tile, int thread) const {
    return tile * warps + thread / warp_threads;
  }
  /// The first of a thread's elements in each half of its block.
  [[nodiscard]] static ZEROTH_DEVICE int first_of(int thread) { return thread % warp_threads * per_half; }
  /// The index in its block of a thread's element `k`.
  [[nodiscard]] static ZEROTH_DEVICE int element_of(int thread, int k) {
    return k / per_half * half_count + first_of(thread) + k % per_half;
  }
  template <class T>
  [[nodiscard]] static ZEROTH_DEVICE Values read(T const* block, int thread) {
    Values values;
    for (int half = 0; half < 2; ++half) {
      auto const in = load<per_half>(block + half * half_count + first_of(thread));
      for (int k = 0; k < per_half; ++k) {
        values.at[half * per_half + k] = to_float(in.at[k]);
      }
    }
    return values;
  }
  template <class T>
  static ZEROTH_DEVICE void write(T* block, int thread, Values const& values) {
    for (int half = 0; half < 2; ++half) {
      Pack<T, per_half> out;
      for (int k = 0; k < per_half; ++k) {
        out.at[k] = from_float<T>(values.at[half * per_half + k]);
      }
      store(block + half * half_count + first_of(thread), out);
    }
  }
};

/// The start of an encoding: each thread takes its elements of a block by `read(at, thread)`, and Shared::largest gets
/// the largest magnitude_bits() of each warp's block.
template <class Block, class Shared, class Read>
ZEROTH_DEVICE void find_largest(CodecBlocks const& of, Block& block, Shared& shared, std::int64_t tile,
                                PerThread<CodecBlocks::Values, Block>& values, Read const& read) {
  PerThread<std::uint32_t, Block> largest;
  block.alone([&](int thread) {
    largest[thread] = 0;
    if (auto const at = of.block_of(tile, thread); at < of.blocks) {
      values[thread] = read(at, thread);
      for (float const value : values[thread].at) {
        auto const bits = device::magnitude_bits(value);
        largest[thread] = bits > largest[thread] ? bits : largest[thread];
      }
    }
  });
  block.fold_warps(largest, [](std::uint32_t a, std::uint32_t b) { return a > b ? a : b; });
  block.phase([&](int thread) {
    if (thread % warp_threads == 0) {
      shared.largest[thread / warp_threads] = largest[thread];
    }
  });
}

/// Scales blocks by their largest element. `Self` stores each thread's elements of a block: `put(block, thread, values,
/// largest)`.
template <class Self, class T>
struct ScaledBlocks : CodecBlocks {
  struct Shared {
    std::uint32_t largest[warps];
  };

  T const* source;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    PerThread<Values, Block> values;
    for (std::int64_t tile = block.index(); tile < tiles(); tile += block.count()) {
      find_largest(*this, block, shared, tile, values,
                   [&](std::int64_t at, int thread) { return read(source + at * codec_block_count, thread); });
      block.phase([&](int thread) {
        if (auto const at = block_of(tile, thread); at < blocks) {
          static_cast<Self const*>(this)->put(at, thread, values[thread], shared.largest[thread / warp_threads]);
        }
      });
    }
  }
};

template <class T>
struct QuantiseBlocks : ScaledBlocks<QuantiseBlocks<T>, T> {
  using typename CodecBlocks::Values;

  T* destination;  // the source itself

  ZEROTH_DEVICE void put(std::int64_t at, int thread, Values values, std::uint32_t largest) const {
    auto const of = device::power_of_two_scale(dtype_of<T>, largest);
    for (float& value : values.at) {
      value = device::decode_element(device::encode_element(value, of.inverse, of.limit), of.scale);
    }
    CodecBlocks::write(destination + at * codec_block_count, thread, values);
  }
};

template <Codec codec, class T>
struct EncodeBlocks : ScaledBlocks<EncodeBlocks<codec, T>, T> {
  using CodecBlocks::first_of;
  using CodecBlocks::half_count;
  using CodecBlocks::per_half;
  using typename CodecBlocks::Values;

  std::byte* destination;
  BlockScales scales;

  ZEROTH_DEVICE void put(std::int64_t at, int thread, Values const& values, std::uint32_t largest) const {
    auto const of = device::scale_of(codec, scales, dtype_of<T>, largest);
    auto* const to = destination + at * encoded_block_bytes(codec);
    std::int32_t codes[2][per_half];
    for (int half = 0; half < 2; ++half) {
      for (int k = 0; k < per_half; ++k) {
        codes[half][k] = device::encode_element(values.at[half * per_half + k], of.inverse, of.limit);
      }
    }
    if (thread % warp_threads == 0) {
      *reinterpret_cast<float*>(to) = of.scale;
    }
    auto* const bytes = reinterpret_cast<std::uint8_t*>(to + sizeof of.scale) + first_of(thread);
    if constexpr (codec == Codec::int8) {
      for (int half = 0; half < 2; ++half) {
        Pack<std::uint8_t, per_half> out;
        for (int k = 0; k < per_half; ++k) {
          out.at[k] = static_cast<std::uint8_t>(codes[half][k]);
        }
        store(bytes + half * half_count, out);
      }
    } else {
      Pack<std::uint8_t, per_half> out;
      for (int k = 0; k < per_half; ++k) {
        out.at[k] = device::pair_of_codes(codes[0][k], codes[1][k]);
      }
      store(bytes, out);
    }
  }
};

template <class T>
struct EncodeSigns : CodecBlocks {
  struct Shared {
    std::uint32_t largest[warps];
    std::uint16_t headers[warps];
    std::uint32_t signs[warps][codec_block_count];
  };

  T const* source;
  device::Encode args;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    auto const factors = device::factors_of(args);
    PerThread<Values, Block> values;
    PerThread<std::uint32_t, Block> units;
    PerThread<std::int32_t, Block> count;
    for (std::int64_t tile = block.index(); tile < tiles(); tile += block.count()) {
      find_largest(*this, block, shared, tile, values,
                   [&](std::int64_t at, int thread) { return read_sum(factors, at, thread); });
      block.phase([&](int thread) {
        int const warp = thread / warp_threads;
        units[thread] = 0;
        count[thread] = 0;
        for (int k = 0; k < 2 * per_half && block_of(tile, thread) < blocks; ++k) {
          float const value = values[thread].at[k];
          units[thread] += device::units_of(value, shared.largest[warp]);
          count[thread] = value == 0 ? count[thread] : element_of(thread, k) + 1;
          shared.signs[warp][element_of(thread, k)] = device::encode_sign(value);
        }
      });
      block.fold_warps(units, [](std::uint32_t a, std::uint32_t b) { return a + b; });
      block.fold_warps(count, [](std::int32_t a, std::int32_t b) { return a > b ? a : b; });
      block.phase([&](int thread) {
        if (int const warp = thread / warp_threads; thread % warp_threads == 0) {
          auto const code = device::code_of_magnitude(units[thread], count[thread], shared.largest[warp]);
          shared.headers[warp] = device::header_of_signs(code, count[thread]);
        }
      });
      block.phase([&](int thread) {
        if (auto const at = block_of(tile, thread); at < blocks) {
          put(at, thread, values[thread], shared, factors.keeps_errors);
        }
      });
    }
  }

 private:
  [[nodiscard]] ZEROTH_DEVICE Values read_sum(device::MomentFactors const& factors, std::int64_t at, int thread) const {
    auto sum = read(source + at * codec_block_count, thread);
    if (args.momentum != nullptr) {
      auto const momentum = read(args.momentum + at * codec_block_count, thread);
      for (int k = 0; k < 2 * per_half; ++k) {
        sum.at[k] = device::first_moment(factors, momentum.at[k], sum.at[k]);
      }
    }
    auto const lost = read(args.errors + at * codec_block_count, thread);
    for (int k = 0; k < 2 * per_half; ++k) {
      sum.at[k] += lost.at[k];
    }
    return sum;
  }

  ZEROTH_DEVICE void put(std::int64_t at, int thread, Values values, Shared const& shared, bool keeps_errors) const {
    int const warp = thread / warp_threads, lane = thread % warp_threads;
    auto const header = shared.headers[warp];
    auto* const to = args.destination + at * encoded_block_bytes(Codec::sign);
    if (lane == 0) {
      *reinterpret_cast<std::uint16_t*>(to) = header;
    }
    if (lane < device::sign_bytes) {
      unsigned byte = 0;
      for (int k = 0; k < 8; ++k) {
        byte |= shared.signs[warp][k * device::sign_bytes + lane] << static_cast<unsigned>(k);
      }
      to[static_cast<int>(sizeof header) + lane] = static_cast<std::byte>(byte);
    }
    if (shared.largest[warp] < device::infinity_bits && !keeps_errors) {
      float const magnitude = device::magnitude_of_header(header);
      for (int k = 0; k < 2 * per_half; ++k) {
        auto const sign = device::encode_sign(values.at[k]);
        bool const has_magnitude = element_of(thread, k) < device::count_of_header(header);
        values.at[k] = has_magnitude ? values.at[k] - device::decode_sign(sign, magnitude) : values.at[k];
      }
      write(args.errors + at * codec_block_count, thread, values);
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
          fold(at, thread);
        }
      }
    });
  }

 private:
  ZEROTH_DEVICE void fold(std::int64_t at, int thread) const {
    auto const element = at * codec_block_count;
    auto sum = accumulate ? read(sums + element, thread) : decoded(received, at, thread);
    for (int rank = accumulate ? 0 : 1; rank < ranks; ++rank) {
      auto const more = decoded(received + rank * piece_bytes, at, thread);
      for (int k = 0; k < 2 * per_half; ++k) {
        sum.at[k] += more.at[k];
      }
    }
    if (sums != nullptr) {
      write(sums + element, thread, sum);
    } else {
      write(output + element, thread, sum);
    }
  }

  [[nodiscard]] static ZEROTH_DEVICE Values decoded(std::byte const* piece, std::int64_t at, int thread) {
    if constexpr (codec == Codec::exact) {
      return read(reinterpret_cast<T const*>(piece) + at * codec_block_count, thread);
    } else if constexpr (codec == Codec::sign) {
      auto const* const from = piece + at * encoded_block_bytes(codec);
      auto const header = *reinterpret_cast<std::uint16_t const*>(from);
      auto const* const bytes = reinterpret_cast<std::uint8_t const*>(from + sizeof header);
      float const magnitude = device::magnitude_of_header(header);
      Values values;
      for (int k = 0; k < 2 * per_half; ++k) {
        int const element = element_of(thread, k);
        auto const bit = bytes[element % device::sign_bytes] >> (element / device::sign_bytes) & 1;
        values.at[k] = element < device::count_of_header(header)
                           ? device::decode_sign(static_cast<std::uint32_t>(bit), magnitude)
                           : 0.0F;
      }
      return values;
    } else {
      auto const* const from = piece + at * encoded_block_bytes(codec);
      float const scale = *reinterpret_cast<float const*>(from);
      auto const* const bytes = reinterpret_cast<std::uint8_t const*>(from + sizeof scale) + first_of(thread);
      Values values;
      auto const first = load<per_half>(bytes);
      auto const second = codec == Codec::int8 ? load<per_half>(bytes + half_count) : first;
      for (int k = 0; k < per_half; ++k) {
        bool const whole = codec == Codec::int8;
        values.at[k] = device::decode_element(
            whole ? static_cast<std::int8_t>(first.at[k]) : device::first_code(first.at[k]), scale);
        values.at[per_half + k] = device::decode_element(
            whole ? static_cast<std::int8_t>(second.at[k]) : device::second_code(second.at[k]), scale);
      }
      return values;
    }
  }
};

template <class Launch>
[[nodiscard]] cudaError_t launch_encode(Launch const& launch, device::Encode const& args) {
  cudaError_t result = cudaSuccess;
  with_element(args.dtype, [&]<class T>(std::type_identity<T>) {
    auto const run = [&]<Codec codec>(std::integral_constant<Codec, codec>) {
      EncodeBlocks<codec, T> const body{
          {{args.count / codec_block_count}, static_cast<T const*>(args.source)}, args.destination, args.scales};
      result = body.blocks == 0 ? cudaSuccess : launch(body, body.tiles());
    };
    if (args.codec == Codec::sign) {
      EncodeSigns<T> const body{{args.count / codec_block_count}, static_cast<T const*>(args.source), args};
      result = body.blocks == 0 ? cudaSuccess : launch(body, body.tiles());
    } else if (args.codec == Codec::int8) {
      run(std::integral_constant<Codec, Codec::int8>{});
    } else {
      run(std::integral_constant<Codec, Codec::int4>{});
    }
  });
  return result;
}

template <class Launch>
[[nodiscard]] cudaError_t launch_quantise(Launch const& launch, device::Quantise const& args) {
  auto const run = [&]<class T>(std::type_identity<T>) {
    auto* const values = static_cast<T*>(args.values);
    QuantiseBlocks<T> const body{{{args.count / codec_block_count}, values}, values};
    return body.blocks == 0 ? cudaSuccess : launch(body, body.tiles());
  };
  return args.dtype == Dtype::bf16 ? run(std::type_identity<bf16>{}) : run(std::type_identity<fp16>{});
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
      case Codec::sign: return run(std::integral_constant<Codec, Codec::sign>{});
    }
  });
  return result;
}

}  // namespace zeroth::cuda
