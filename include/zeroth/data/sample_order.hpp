// SPDX-License-Identifier: Apache-2.0
/// Which sample of a data set comes when.
#pragma once
#include <cstdint>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// How a SampleOrder goes through its data set.
struct SampleOrderOptions {
  std::uint64_t seed = 0;  ///< Another one is another order. Counts where samples are shuffled.
  bool shuffled = true;    ///< Every epoch has an order of its own; otherwise all have that of the data set.
  /// A number that says which data these are, such as a hash of their file; 0: unknown. It does not change the order.
  /// Checkpoints store it, and restore() refuses data with another one.
  std::uint64_t fingerprint = 0;
};

/// The endless stream of samples that all ranks share: position i, counted over all epochs, is one sample of the data
/// set, and every epoch has every sample exactly once, whatever the batch size and however many ranks take turns. An
/// engine's first_sample() of a micro-step is such a position.
///
/// A rule and not a list: no memory, no state that moves on, and nothing to share. So a run that goes on from a
/// checkpoint, on any number of ranks, needs the position alone. The same on every machine. Immutable: may be shared by
/// threads. Shuffled, a look-up is a Feistel network over the next power of four, walked until it lands
/// inside (Black and Rogaway 2002): four times through it on average, at most.
class ZEROTH_EXPORT SampleOrder {
 public:
  /// Throws ContractError for a size below 1.
  explicit SampleOrder(std::int64_t size, SampleOrderOptions options = {});
  /// The sample at `position`, 0 to size() - 1. Throws ContractError for a position below 0.
  [[nodiscard]] std::int64_t operator[](std::int64_t position) const;
  /// How often all samples have been there before `position`. Throws ContractError for a position below 0.
  [[nodiscard]] std::int64_t epoch(std::int64_t position) const;
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }           ///< Samples of the data set.
  [[nodiscard]] std::uint64_t seed() const noexcept { return options_.seed; }  ///< As it was made.
  [[nodiscard]] bool shuffled() const noexcept { return options_.shuffled; }   ///< As it was made.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return options_.fingerprint; }  ///< As it was made.
  /// True if both give the same samples at all positions: seeds count only where samples are shuffled.
  [[nodiscard]] bool operator==(SampleOrder const& other) const noexcept;

 private:
  std::int64_t size_;
  SampleOrderOptions options_;
};

}  // namespace zeroth
