// SPDX-License-Identifier: Apache-2.0
/// Dropout's passes over activations, with the same masks as on the CPU.
#pragma once
#include <cstdint>

#include "cuda/packs.hpp"
#include "dropped.hpp"
#include "gpu/kernels/row_packs.hpp"

namespace gpt::gpu {

/// An element's place in the activations of a micro-batch.
struct PlaceInSequence {
  zeroth::Random random;  ///< The generator of its sequence.
  std::int64_t element;   ///< Index in the sequence.
};

/// y = x after dropout, or y = residual + x after dropout, rounded once. May work in place.
template <Element T>
struct DropOut {
  static constexpr int threads = 256;
  static constexpr int resident_blocks = 5;  // with 8, a thread has 32 registers, and Philox spills
  static constexpr int pack = zeroth::cuda::pack_count<T>;
  static constexpr int tile_count = threads * pack;
  struct Shared {};

  zeroth::Random random;
  std::int64_t per_sequence, offset;  ///< offset: of the first element in the micro-batch.
  std::uint32_t smallest_kept;
  float scale;
  T const *x, *residual;  ///< residual: null if there is none.
  T* y;
  std::int64_t count;
  zeroth::cuda::PackGrid<pack> grid;

  DropOut(Dropped const& dropped, T const* from, T const* onto, T* to, std::int64_t elements)
      : random{dropped.random},
        per_sequence{dropped.per_sequence},
        offset{dropped.first},
        smallest_kept{zeroth::Random::smallest_kept(dropped.rate)},
        scale{dropped.scale()},
        x{from},
        residual{onto},
        y{to},
        count{elements} {
    zeroth::cuda::Array const arrays[] = {
        {x, sizeof(T)}, {residual == nullptr ? x : residual, sizeof(T)}, {y, sizeof(T)}};
    grid = zeroth::cuda::pack_grid<pack>(arrays);
  }
  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t work() const {
    return zeroth::cuda::tiles_of<tile_count>(grid, 0, count);
  }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.alone([&](int thread) {
      for (std::int64_t i = block.index(); i < work(); i += block.count()) {
        auto const tile = zeroth::cuda::tile_of<tile_count>(grid, 0, count, i);
        zeroth::cuda::each_pack<threads>(grid, tile, thread, [&](std::int64_t first, auto lanes) {
          pass<lanes()>(first, words_of<lanes()>(first));
        });
      }
    });
  }

 private:
  template <int lanes>
  ZEROTH_DEVICE void pass(std::int64_t first, Pack<std::uint32_t, lanes> const& words) const {
    auto const in = zeroth::cuda::load<lanes>(x + first);
    Pack<float, lanes> out;
    for (int k = 0; k < lanes; ++k) {
      out.at[k] = words.at[k] >= smallest_kept ? scale * float_of(in.at[k]) : 0;
    }
    if (residual != nullptr) {
      auto const onto = zeroth::cuda::load<lanes>(residual + first);
      for (int k = 0; k < lanes; ++k) {
        out.at[k] += float_of(onto.at[k]);
      }
    }
    zeroth::cuda::store(y + first, from_floats<T>(out));
  }

  [[nodiscard]] ZEROTH_DEVICE PlaceInSequence at(std::int64_t index) const {
    auto of_sequence = random;
    of_sequence.sample += (offset + index) / per_sequence;
    return {of_sequence, (offset + index) % per_sequence};
  }

  /// Random words for the elements from `first` on. One call of Philox yields four words, if the elements start at a
  /// multiple of four and are in one sequence.
  template <int lanes>
  [[nodiscard]] ZEROTH_DEVICE Pack<std::uint32_t, lanes> words_of(std::int64_t first) const {
    auto const [of_sequence, element] = at(first);
    Pack<std::uint32_t, lanes> words;
    if constexpr (lanes % 4 == 0) {
      if (element % 4 == 0 && element + lanes <= per_sequence) {
        for (int k = 0; k < lanes; k += 4) {
          auto const four = of_sequence.words(static_cast<std::uint64_t>(element + k) / 4);
          for (int lane = 0; lane < 4; ++lane) {
            words.at[k + lane] = four[static_cast<std::size_t>(lane)];
          }
        }
        return words;
      }
    }
    for (int k = 0; k < lanes; ++k) {
      words.at[k] = word(at(first + k));
    }
    return words;
  }
  /// Selects the word without a variable index, which would need local memory.
  [[nodiscard]] static ZEROTH_DEVICE std::uint32_t word(PlaceInSequence const& of) {
    auto const four = of.random.words(static_cast<std::uint64_t>(of.element) / 4);
    bool const upper = of.element % 4 >= 2;
    std::uint32_t const even = upper ? four[2] : four[0], odd = upper ? four[3] : four[1];
    return of.element % 2 == 0 ? even : odd;
  }
};

}  // namespace gpt::gpu
