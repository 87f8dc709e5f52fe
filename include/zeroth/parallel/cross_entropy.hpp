// SPDX-License-Identifier: Apache-2.0
/// The part of a vocabulary that a tensor rank has, and the values that a cross-entropy keeps for its backward.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// The words of a vocabulary that a tensor rank has: rows of its embedding, columns of its logits.
struct VocabularyPart {
  std::int64_t first;   ///< First word, in the whole vocabulary.
  std::int64_t count;   ///< Words; 0 if the rank has only padding.
  std::int64_t padded;  ///< Rows or columns; padding follows the words.
  std::int64_t all;     ///< Words of the whole vocabulary.
  /// Whether this rank has a word of the whole vocabulary; it is in row `word - first`.
  [[nodiscard]] constexpr bool has(std::int64_t word) const noexcept { return word >= first && word - first < count; }
  friend bool operator==(VocabularyPart const&, VocabularyPart const&) = default;
};

/// The results of TensorParallel::cross_entropy() for each row. One tape serves all micro-steps whose backward follows
/// before the next forward. Memory: 20 bytes per row, of the most rows so far.
class ZEROTH_EXPORT CrossEntropyTape {
 public:
  /// Allocates memory for `rows` before the first forward. Throws std::bad_alloc.
  void reserve(std::int64_t rows);
  /// The loss of each row.
  [[nodiscard]] std::span<float const> losses() const noexcept { return losses_; }

 private:
  friend class TensorParallel;
  static constexpr std::int64_t elsewhere = -1;

  void resize(std::int64_t rows);

  VocabularyPart vocabulary_{};
  std::vector<float> largest_, sums_;  // largest logit of a row, and the sum of exp(logit - largest)
  std::vector<float> losses_;
  std::vector<std::int64_t> columns_;  // columns of targets in this rank's logits, or `elsewhere`
};

}  // namespace zeroth
