// SPDX-License-Identifier: Apache-2.0
/// Rounding to bf16 that is exact on average, and its random bits. Shared by the CPU's loops and the GPU's kernel.
///
/// bf16 has eight binary digits. If sums are rounded to nearest, an update of less than a 512th of a weight is lost in
/// every step, and training stalls (Gupta et al. 2015; Zamirai et al. 2020). If they are rounded up or down at random,
/// in proportion to the part that is cut off, weights move by the right amount on average.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/philox_words.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::optim {

/// From the magnitude of bf16's largest number on, no noise is added, since the next number is infinity.
inline constexpr std::uint32_t noise_ends = 0x7f7f0000U;
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE constexpr std::uint32_t magnitude_bits(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}
/// Adds the noise and truncates, for magnitudes below noise_ends.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE constexpr bf16 cut_off(float value, std::uint32_t noise) noexcept {
  return {static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + noise) >> 16U)};
}

/// Rounds to one of the two neighbours in bf16: adds `noise`, 16 random bits, to the 16 bits that are then cut off.
/// Values of bf16, subnormals included, do not change. A finite value stays finite, and a NaN stays a NaN of the same
/// sign.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE constexpr bf16 round_stochastically(float value,
                                                                                         std::uint32_t noise) noexcept {
  std::uint32_t const magnitude = magnitude_bits(value);
  std::uint32_t const to_quiet = magnitude > 0x7f800000U ? ~std::bit_cast<std::uint32_t>(value) & 0x00400000U : 0U;
  return cut_off(value, magnitude < noise_ends ? noise : to_quiet);
}

/// The values that an update rounds. Each has its own random bits.
enum class Rounded : std::uint32_t { master, first_state, second_state };
[[nodiscard]] ZEROTH_HOST_DEVICE constexpr Rounded rounded_state(int state) noexcept {
  return static_cast<Rounded>(1 + state);
}

/// The source of an update's random bits. They depend only on the seed, the number of the update, the rounded value and
/// the element's position in the model. So they are the same at every stage and world size, on every device and in
/// vectors of any length; and no two elements, updates or values share any.
struct RoundingNoise {
  PhiloxKey key;
  std::uint32_t update[2];
};

/// Elements per call of philox(): 16 bits each.
inline constexpr int noise_lanes = 8;

[[nodiscard]] ZEROTH_HOST_DEVICE inline RoundingNoise noise_of(std::int64_t rounding_seed,
                                                               StepScalars const& scalars) noexcept {
  auto const seed = static_cast<std::uint64_t>(rounding_seed);
  auto const update = static_cast<std::uint64_t>(scalars.applied);
  return {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)},
          {static_cast<std::uint32_t>(update), static_cast<std::uint32_t>(update >> 32U)}};
}

/// Group g serves the noise_lanes elements from noise_lanes * g on, two per word, the lower half first.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline PhiloxSequence noise_sequence(RoundingNoise const& noise,
                                                                                          Rounded what) noexcept {
  return {noise.key, static_cast<std::uint32_t>(what) << 30U, noise.update[0], noise.update[1]};
}
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline PhiloxWords noise_words(RoundingNoise const& noise,
                                                                                    Rounded what,
                                                                                    std::uint64_t group) noexcept {
  return noise_sequence(noise, what)[group];
}

/// The 16 bits of one of the elements that share `words`.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::uint32_t noise_at(PhiloxWords const& words,
                                                                                   int lane) noexcept {
  std::uint32_t const word = words[static_cast<std::size_t>(lane / 2)];
  return lane % 2 == 0 ? word & 0xffffU : word >> 16U;
}

}  // namespace zeroth::optim
