// SPDX-License-Identifier: Apache-2.0
/// What tensor ranks have of a vocabulary, and what a cross-entropy over it leaves for its backward.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// The words of a vocabulary that a tensor rank has: rows of its embedding, columns of its logits.
struct VocabularyPart {
  std::int64_t first;   ///< In the whole vocabulary.
  std::int64_t count;   ///< Words; 0 where all that the rank has is padding.
  std::int64_t padded;  ///< Rows or columns: behind the words comes padding.
  std::int64_t all;     ///< Words of the whole vocabulary.
  /// Has this rank that word of the whole vocabulary? Then it is in row `word - first`.
  [[nodiscard]] constexpr bool has(std::int64_t word) const noexcept { return word >= first && word - first < count; }
  friend bool operator==(VocabularyPart const&, VocabularyPart const&) = default;
};

/// What TensorParallel::cross_entropy() finds in each row. One serves all micro-steps whose backward follows before the
/// next forward. Memory: 20 bytes a row, which grows to the most rows that it has had.
class ZEROTH_EXPORT CrossEntropyTape {
 public:
  /// Takes the memory of as many rows before the first forward. Throws std::bad_alloc.
  void reserve(std::int64_t rows);
  /// The loss of each row.
  [[nodiscard]] std::span<float const> losses() const noexcept { return losses_; }

 private:
  friend class TensorParallel;
  static constexpr std::int64_t elsewhere = -1;

  void resize(std::int64_t rows);

  VocabularyPart vocabulary_{};
  std::vector<float> largest_, sums_;  // logit of a row, and what exponentials of distances to it add up to
  std::vector<float> losses_;
  std::vector<std::int64_t> columns_;  // of targets in this rank's logits, or elsewhere
};

}  // namespace zeroth
