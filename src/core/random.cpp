// SPDX-License-Identifier: Apache-2.0
#include "zeroth/core/random.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/isa.hpp"
#include "core/philox_words.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {
namespace {

/// As many groups of four as keep their words, and the values made of them, within half of a core's first cache.
constexpr std::int64_t groups_at_once = 512;
static_assert(groups_at_once % philox_batch == 0);

void expect(Random const& random, char const* call, std::int64_t first, std::int64_t count) {
  ZEROTH_EXPECTS(random.step >= 0, fmt::format("Random::{}(): the step is {}; allowed: 0 or more", call, random.step));
  ZEROTH_EXPECTS(
      random.sample >= 0 && random.sample < Random::most_samples,
      fmt::format("Random::{}(): the sample is {}; allowed: 0 to {}", call, random.sample, Random::most_samples - 1));
  ZEROTH_EXPECTS(first >= 0 && count <= Random::most_elements && first <= Random::most_elements - count,
                 fmt::format("Random::{}(): {} elements from {} on; allowed: elements 0 to {}", call, count, first,
                             Random::most_elements - 1));
}

/// Calls `use(words, at, n)` for batches of n elements that begin `at` elements after the first one, `count` elements
/// in all.
template <class Use>
void each_words(Random const& random, std::int64_t first, std::int64_t count, Use const& use) {
  auto const sample = static_cast<std::uint64_t>(random.sample);
  PhiloxSequence const sequence{random.key(), static_cast<std::uint32_t>(sample >> 32U) << 16U,
                                static_cast<std::uint32_t>(sample), random.use};
  std::uint32_t words[4 * groups_at_once];
  for (std::int64_t done = 0; done < count;) {
    auto const group = (first + done) / 4;
    auto const before = (first + done) % 4;
    auto const n = std::min(count - done, 4 * groups_at_once - before);
    fill_philox(sequence, static_cast<std::uint64_t>(group), (before + n + 3) / 4, words);
    use(words + before, done, n);
    done += n;
  }
}

struct ToUniform {
  std::uint32_t const* words;
  float* values;
  std::int64_t count;

  ZEROTH_INLINE void operator()() const noexcept {
    for (std::int64_t i = 0; i < count; ++i) {
      values[i] = Random::to_uniform(words[i]);
    }
  }
};

struct ToKept {
  std::uint32_t const* words;
  std::uint32_t smallest;
  std::byte* kept;
  std::int64_t count;

  ZEROTH_INLINE void operator()() const noexcept {
    auto const* const from = words;  // local copies, since bytes may alias anything, also this object
    auto const least = smallest;
    auto* const to = kept;
    auto const end = count;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < end; ++i) {
      to[i] = static_cast<std::byte>(from[i] >= least);
    }
  }
};

}  // namespace

void Random::uniform(std::int64_t first, std::span<float> values) const {
  expect(*this, "uniform", first, std::ssize(values));
  each_words(*this, first, std::ssize(values), [&](std::uint32_t const* words, std::int64_t at, std::int64_t n) {
    with_best_isa(ToUniform{words, values.data() + at, n});
  });
}

void Random::keep(std::int64_t first, float rate, std::span<std::byte> kept) const {
  expect(*this, "keep", first, std::ssize(kept));
  ZEROTH_EXPECTS(rate >= 0 && rate < 1, fmt::format("Random::keep(): the rate is {}; allowed: 0 to below 1", rate));
  each_words(*this, first, std::ssize(kept), [&](std::uint32_t const* words, std::int64_t at, std::int64_t n) {
    with_best_isa(ToKept{words, smallest_kept(rate), kept.data() + at, n});
  });
}

}  // namespace zeroth
