// SPDX-License-Identifier: Apache-2.0
/// Philox in vectors, with one word of a counter in each 64-bit lane. The multiplication of 32 by 32 bits reads the
/// lower halves of the lanes and leaves the whole product. So a round of all lanes is two products, two shifts and
/// exclusive ors; garbage in the upper halves is never read. Written with intrinsics, because g++ 12 takes lanes apart
/// and reassembles them in every round of a loop over philox(), which takes twice as long.
#include "core/philox_words.hpp"

#include "core/isa.hpp"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace zeroth {
namespace {

void fill_plain(PhiloxSequence const& sequence, std::uint64_t first, std::int64_t groups,
                std::uint32_t* words) noexcept {
  for (std::int64_t g = 0; g < groups; ++g) {
    for (auto const word : sequence[first + static_cast<std::uint64_t>(g)]) {
      *words++ = word;
    }
  }
}

#if defined(__x86_64__)

[[gnu::target("avx512f")]] void fill_avx512(PhiloxSequence const& sequence, std::uint64_t first, std::int64_t groups,
                                            std::uint32_t* words) noexcept {
  __m512i keys[detail::philox_rounds][2];
  for (std::uint32_t round = 0; round < detail::philox_rounds; ++round) {
    keys[round][0] = _mm512_set1_epi64(sequence.key[0] + round * detail::philox_key_step_0);
    keys[round][1] = _mm512_set1_epi64(sequence.key[1] + round * detail::philox_key_step_1);
  }
  auto const times_0 = _mm512_set1_epi64(detail::philox_factor_0), times_1 = _mm512_set1_epi64(detail::philox_factor_1);
  auto const first_half = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
  auto const second_half = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
  auto const above = _mm512_set1_epi64(sequence.above);
  for (std::int64_t g = 0; g < groups; g += 8) {
    auto const group = _mm512_add_epi64(_mm512_set1_epi64(static_cast<std::int64_t>(first) + g),
                                        _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    auto word_0 = group, word_1 = _mm512_or_si512(_mm512_srli_epi64(group, 32), above);
    auto word_2 = _mm512_set1_epi64(sequence.word_2), word_3 = _mm512_set1_epi64(sequence.word_3);
    for (auto const& key : keys) {
      auto const a = _mm512_mul_epu32(word_0, times_0), b = _mm512_mul_epu32(word_2, times_1);
      word_0 = _mm512_srli_epi64(b, 32) ^ word_1 ^ key[0];
      word_1 = b;
      word_2 = _mm512_srli_epi64(a, 32) ^ word_3 ^ key[1];
      word_3 = a;
    }
    auto const low = _mm512_mask_blend_epi32(0xaaaa, word_0, _mm512_slli_epi64(word_1, 32));  // two words in a lane
    auto const high = _mm512_mask_blend_epi32(0xaaaa, word_2, _mm512_slli_epi64(word_3, 32));
    auto const even = _mm512_unpacklo_epi64(low, high);  // groups 0, 2, 4, 6
    auto const odd = _mm512_unpackhi_epi64(low, high);
    _mm512_storeu_si512(words + 4 * g, _mm512_permutex2var_epi64(even, first_half, odd));
    _mm512_storeu_si512(words + 4 * g + 16, _mm512_permutex2var_epi64(even, second_half, odd));
  }
}

[[gnu::target("avx2")]] void fill_avx2(PhiloxSequence const& sequence, std::uint64_t first, std::int64_t groups,
                                       std::uint32_t* words) noexcept {
  __m256i keys[detail::philox_rounds][2];
  for (std::uint32_t round = 0; round < detail::philox_rounds; ++round) {
    keys[round][0] = _mm256_set1_epi64x(sequence.key[0] + round * detail::philox_key_step_0);
    keys[round][1] = _mm256_set1_epi64x(sequence.key[1] + round * detail::philox_key_step_1);
  }
  auto const times_0 = _mm256_set1_epi64x(detail::philox_factor_0),
             times_1 = _mm256_set1_epi64x(detail::philox_factor_1);
  auto const above = _mm256_set1_epi64x(sequence.above);
  for (std::int64_t g = 0; g < groups; g += 4) {
    auto const group =
        _mm256_add_epi64(_mm256_set1_epi64x(static_cast<std::int64_t>(first) + g), _mm256_set_epi64x(3, 2, 1, 0));
    auto word_0 = group, word_1 = _mm256_or_si256(_mm256_srli_epi64(group, 32), above);
    auto word_2 = _mm256_set1_epi64x(sequence.word_2), word_3 = _mm256_set1_epi64x(sequence.word_3);
    for (auto const& key : keys) {
      auto const a = _mm256_mul_epu32(word_0, times_0), b = _mm256_mul_epu32(word_2, times_1);
      word_0 = _mm256_srli_epi64(b, 32) ^ word_1 ^ key[0];
      word_1 = b;
      word_2 = _mm256_srli_epi64(a, 32) ^ word_3 ^ key[1];
      word_3 = a;
    }
    auto const low = _mm256_blend_epi32(word_0, _mm256_slli_epi64(word_1, 32), 0xaa);  // two words in a lane
    auto const high = _mm256_blend_epi32(word_2, _mm256_slli_epi64(word_3, 32), 0xaa);
    auto const even = _mm256_unpacklo_epi64(low, high);  // groups 0, 2
    auto const odd = _mm256_unpackhi_epi64(low, high);
    auto* const to = reinterpret_cast<__m256i*>(words + 4 * g);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}

#endif

}  // namespace

void fill_philox(PhiloxSequence const& sequence, std::uint64_t first, std::int64_t groups,
                 std::uint32_t* words) noexcept {
#if defined(__x86_64__)
  switch (current_isa()) {
    case Isa::avx512: return fill_avx512(sequence, first, groups, words);
    case Isa::avx2: return fill_avx2(sequence, first, groups, words);
    case Isa::plain: break;
  }
#endif
  fill_plain(sequence, first, groups, words);
}

}  // namespace zeroth
