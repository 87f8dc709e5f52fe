// SPDX-License-Identifier: Apache-2.0
/// Selects the bytes that a rank trains on.
#pragma once
#include <cstdint>
#include <vector>
#include <zeroth/data/sample_order.hpp>

#include "corpus.hpp"

namespace gpt {

/// Rows of `context` tokens, and the token that follows each of them.
struct Batch {
  std::vector<std::uint8_t> inputs, targets;  // [rows * context]
  std::vector<std::uint8_t> sequence;         // [context + 1], a buffer for reading
};

/// The map from samples to sequences of the corpus. With `shuffled` every epoch has its own order.
enum class Order : std::uint8_t { sequential, shuffled };

/// The endless stream of samples over a corpus that all ranks share.
///
/// Sequence i is bytes [i * context, (i + 1) * context]: its last byte is only a target here, and the first token of
/// the next sequence. Immutable, so threads may share it. The corpus must outlive it.
class Batches {
 public:
  /// Throws ConfigError if the corpus has less than one sequence.
  Batches(Corpus const& corpus, std::int64_t context, Order order, std::uint64_t seed);
  [[nodiscard]] std::int64_t sequences() const noexcept { return order_.size(); }
  /// The map from samples to sequences.
  [[nodiscard]] zeroth::SampleOrder const& order() const noexcept { return order_; }
  /// Reads samples [first_sample, first_sample + rows). Allocates only if `batch` never held as many. Throws
  /// SystemError if they can no longer be read.
  void read(std::int64_t first_sample, std::int64_t rows, Batch& batch) const;

 private:
  Corpus const* corpus_;
  std::int64_t context_;
  zeroth::SampleOrder order_;
};

}  // namespace gpt
