// SPDX-License-Identifier: Apache-2.0
/// Which bytes a rank trains on.
#pragma once
#include <cstdint>
#include <vector>
#include <zeroth/data/sample_order.hpp>

#include "corpus.hpp"

namespace gpt {

/// Rows of `context` tokens and of what follows each of them.
struct Batch {
  std::vector<std::uint8_t> inputs, targets;  // [rows * context]
  std::vector<std::uint8_t> sequence;         // [context + 1], while it is read
};

/// How samples map to sequences of the corpus. Shuffled: every epoch has an order of its own.
enum class Order : std::uint8_t { sequential, shuffled };

/// The endless stream of samples over a corpus that all ranks share.
///
/// Sequence i is bytes [i * context, (i + 1) * context], of which the last is only a target, and the next sequence's
/// first. Immutable: may be shared by threads. The corpus must outlive it.
class Batches {
 public:
  /// Throws ConfigError if the corpus has less than one sequence.
  Batches(Corpus const& corpus, std::int64_t context, Order order, std::uint64_t seed);
  [[nodiscard]] std::int64_t sequences() const noexcept { return order_.size(); }
  /// Which sequence is which sample.
  [[nodiscard]] zeroth::SampleOrder const& order() const noexcept { return order_; }
  /// Samples [first_sample, first_sample + rows). Allocates only if `batch` never held as many. Throws SystemError if
  /// they are not there any more.
  void read(std::int64_t first_sample, std::int64_t rows, Batch& batch) const;

 private:
  Corpus const* corpus_;
  std::int64_t context_;
  zeroth::SampleOrder order_;
};

}  // namespace gpt
