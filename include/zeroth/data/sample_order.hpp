// SPDX-License-Identifier: Apache-2.0
/// The order of a data set's samples.
#pragma once
#include <cstdint>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// How a SampleOrder traverses its data set.
struct SampleOrderOptions {
  std::uint64_t seed = 0;  ///< A different seed gives a different order. Only used if samples are shuffled.
  bool shuffled = true;    ///< Every epoch has its own order; otherwise all have the data set's.
  /// Identifies the data, such as a hash of their file; 0: unknown. Does not affect the order. Checkpoints store it,
  /// and restore() rejects data with a different one.
  std::uint64_t fingerprint = 0;
};

/// The endless stream of samples shared by all ranks. Position i, counted over all epochs, is one sample of the data
/// set. Every epoch contains every sample exactly once, for any batch size and number of ranks. An engine's
/// first_sample() of a micro-step is such a position.
///
/// It is computed and not stored: stateless, so a run resumed from a checkpoint, on any number of ranks, needs the
/// position only. The same on every machine. Immutable, so threads may share it. If shuffled, a look-up is a Feistel
/// network over the next power of four, repeated until it lands inside (Black and Rogaway 2002): at most four times on
/// average.
class ZEROTH_EXPORT SampleOrder {
 public:
  /// Throws ContractError for a size below 1.
  explicit SampleOrder(std::int64_t size, SampleOrderOptions options = {});
  /// The sample at `position`, from 0 to size() - 1. Throws ContractError for a position below 0.
  [[nodiscard]] std::int64_t operator[](std::int64_t position) const;
  /// Number of complete epochs before `position`. Throws ContractError for a position below 0.
  [[nodiscard]] std::int64_t epoch(std::int64_t position) const;
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }           ///< Samples of the data set.
  [[nodiscard]] std::uint64_t seed() const noexcept { return options_.seed; }  ///< The seed passed to the constructor.
  [[nodiscard]] bool shuffled() const noexcept { return options_.shuffled; }   ///< Whether samples are shuffled.
  /// The fingerprint passed to the constructor.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return options_.fingerprint; }
  /// Whether both give the same sample at all positions. Seeds matter only if samples are shuffled.
  [[nodiscard]] bool operator==(SampleOrder const& other) const noexcept;

 private:
  std::int64_t size_;
  SampleOrderOptions options_;
};

}  // namespace zeroth
