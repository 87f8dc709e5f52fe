// SPDX-License-Identifier: Apache-2.0
/// Random numbers by position: the purpose of a draw determines its value.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/core/philox.hpp"

namespace zeroth {

/// The random numbers of one sample for one use: an endless sequence of independent 32-bit words, the elements.
///
/// It is a value and not a generator: it has no mutable state. An element is the same whenever it is asked for, on any
/// rank, thread or device, in any order. So dropout does not depend on the number of ranks, recomputed activations get
/// the mask that they had, and a run resumed from a checkpoint draws the numbers that it would have drawn.
///
/// Philox 4x32-10 (Salmon et al. 2011), keyed by seed and step, with sample, use and element as the counter. No two
/// elements of a seed share a counter and a key, whatever their step, sample and use. Threads may share it. GPU kernels
/// may call functions marked ZEROTH_HOST_DEVICE, and get the CPU's bits.
///
/// AnyPass::random() provides seed, step and sample for a training program.
struct Random {
  /// Number of elements per sequence.
  static constexpr std::int64_t most_elements = std::int64_t{1} << 50U;
  /// Number of samples.
  static constexpr std::int64_t most_samples = std::int64_t{1} << 48U;

  std::uint64_t seed = 0;   ///< The run's seed.
  std::int64_t step = 0;    ///< Optimizer steps completed before this one; at least 0.
  std::int64_t sample = 0;  ///< Index in the sample stream shared by all ranks, from 0 to most_samples - 1.
  std::uint32_t use = 0;    ///< The program's number of this use. Every layer and place with a mask needs its own.

  /// Fills `values` with elements from `first` on, as numbers in [0, 1): multiples of 2^-24, all equally likely. Takes
  /// about 0.4 ns each with AVX-512. Throws ContractError for an invalid step or sample, and for elements outside [0,
  /// most_elements).
  ZEROTH_EXPORT void uniform(std::int64_t first, std::span<float> values) const;
  /// Computes a dropout mask for elements from `first` on: 1 keeps an element, 0 drops it. An element is dropped if its
  /// uniform() is below `rate`, the probability of dropping. Kept elements are usually scaled by 1 / (1 - rate). Throws
  /// ContractError as uniform() does, and for a rate outside [0, 1).
  ZEROTH_EXPORT void keep(std::int64_t first, float rate, std::span<std::byte> kept) const;

  /// Elements 4 * group to 4 * group + 3. For kernels: does not check its argument.
  [[nodiscard]] ZEROTH_HOST_DEVICE constexpr PhiloxWords words(std::uint64_t group) const noexcept {
    auto const in = static_cast<std::uint64_t>(sample);
    return philox(key(), {static_cast<std::uint32_t>(group),
                          static_cast<std::uint32_t>(group >> 32U) | static_cast<std::uint32_t>(in >> 32U) << 16U,
                          static_cast<std::uint32_t>(in), use});
  }
  /// Converts an element as uniform() does.
  [[nodiscard]] ZEROTH_HOST_DEVICE static constexpr float to_uniform(std::uint32_t word) noexcept {
    return static_cast<float>(word >> 8U) * 0x1p-24F;
  }
  /// The smallest element that keep() keeps, for a rate in [0, 1). For kernels: does not check its argument.
  [[nodiscard]] ZEROTH_HOST_DEVICE static constexpr std::uint32_t smallest_kept(float rate) noexcept {
    constexpr float numbers = 0x1p24F;
    auto const below = static_cast<std::uint32_t>(rate * numbers);  // exact but for what is cut off
    return (below + (static_cast<float>(below) < rate * numbers ? 1U : 0U)) << 8U;
  }
  /// Philox's key. Keys of successive steps are 2^64 / (golden ratio) apart, so that keys of other steps and of other
  /// small seeds are far away.
  [[nodiscard]] ZEROTH_HOST_DEVICE constexpr PhiloxKey key() const noexcept {
    auto const both = seed + 0x9e3779b97f4a7c15U * (static_cast<std::uint64_t>(step) + 1);
    return {static_cast<std::uint32_t>(both), static_cast<std::uint32_t>(both >> 32U)};
  }
  /// Compares all members.
  [[nodiscard]] friend bool operator==(Random const&, Random const&) = default;
};

}  // namespace zeroth
