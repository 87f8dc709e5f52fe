// SPDX-License-Identifier: Apache-2.0
/// Random numbers by place: what a draw is for says what it is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/core/philox.hpp"

namespace zeroth {

/// The random numbers of one sample, for one use of them: an endless row of independent words of 32 bits, the elements.
/// A value, and no generator: it has no state that moves on. Who asks for an element twice, on whatever rank, thread or
/// device, in whatever order, is given the same. So dropout is the same on any number of ranks, activations that are
/// computed again have the mask that they had, and a run that goes on from a checkpoint goes on with the numbers that
/// it would have had.
///
/// Philox 4x32-10 (Salmon et al. 2011), keyed by seed and step, counting sample, use and element. No two elements of a
/// seed share a counter and a key, whatever step, sample and use they are of. May be shared by threads. A kernel on a
/// GPU may call what is marked ZEROTH_HOST_DEVICE: it gives the CPU's bits.
///
/// AnyPass::random() says seed, step and sample for a program that trains.
struct Random {
  /// Elements are numbered from 0; a row ends here.
  static constexpr std::int64_t most_elements = std::int64_t{1} << 50U;
  /// So are samples.
  static constexpr std::int64_t most_samples = std::int64_t{1} << 48U;

  std::uint64_t seed = 0;   ///< Of the run.
  std::int64_t step = 0;    ///< Optimizer steps that were completed before; at least 0.
  std::int64_t sample = 0;  ///< In the stream of samples that all ranks share, from 0 to most_samples - 1.
  std::uint32_t use = 0;    ///< Which of a program's uses: every layer and place with a mask has a number of its own.

  /// Elements `first` and following, as numbers of [0, 1): multiples of 2^-24, all as likely. Some 0.4 ns each with
  /// AVX-512. Throws ContractError for a step or sample that is not allowed, and for elements outside [0,
  /// most_elements).
  ZEROTH_EXPORT void uniform(std::int64_t first, std::span<float> values) const;
  /// A mask for dropout: 1 for each of elements `first` and following that stays, 0 for each that is dropped, which
  /// happens with probability `rate`: the element is one of those whose uniform() is below it. What stays is usually
  /// scaled by 1 / (1 - rate). Throws ContractError as uniform() does, and for a rate outside [0, 1).
  ZEROTH_EXPORT void keep(std::int64_t first, float rate, std::span<std::byte> kept) const;

  /// Elements 4 * group and following. For kernels: checks nothing.
  [[nodiscard]] ZEROTH_HOST_DEVICE constexpr PhiloxWords words(std::uint64_t group) const noexcept {
    auto const in = static_cast<std::uint64_t>(sample);
    return philox(key(), {static_cast<std::uint32_t>(group),
                          static_cast<std::uint32_t>(group >> 32U) | static_cast<std::uint32_t>(in >> 32U) << 16U,
                          static_cast<std::uint32_t>(in), use});
  }
  /// What uniform() makes of an element.
  [[nodiscard]] ZEROTH_HOST_DEVICE static constexpr float to_uniform(std::uint32_t word) noexcept {
    return static_cast<float>(word >> 8U) * 0x1p-24F;
  }
  /// The smallest element that keep() keeps, for a rate in [0, 1). For kernels: checks nothing.
  [[nodiscard]] ZEROTH_HOST_DEVICE static constexpr std::uint32_t smallest_kept(float rate) noexcept {
    constexpr float numbers = 0x1p24F;
    auto const below = static_cast<std::uint32_t>(rate * numbers);  // exact but for what is cut off
    return (below + (static_cast<float>(below) < rate * numbers ? 1U : 0U)) << 8U;
  }
  /// The key of Philox. Steps are 2^64 / (golden ratio) apart, so that neither other steps nor other small seeds come
  /// near.
  [[nodiscard]] ZEROTH_HOST_DEVICE constexpr PhiloxKey key() const noexcept {
    auto const both = seed + 0x9e3779b97f4a7c15U * (static_cast<std::uint64_t>(step) + 1);
    return {static_cast<std::uint32_t>(both), static_cast<std::uint32_t>(both >> 32U)};
  }
  /// All of it.
  [[nodiscard]] friend bool operator==(Random const&, Random const&) = default;
};

}  // namespace zeroth
