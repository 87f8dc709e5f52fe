// SPDX-License-Identifier: Apache-2.0
/// Block-sparse attention as lists: the keys that each group of query rows reads.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <zeroth/attention/block_layout.hpp>

namespace gpt {

/// The lists of the heads of one rank. Attention computes with the keys of a group packed together.
class KeyBlocks {
 public:
  static constexpr std::int64_t query_rows = 64;  ///< The max number of rows per group.

  /// Consecutive keys [key, key + count), packed at `at`.
  struct Run {
    std::int64_t key, count, at;
    friend bool operator==(Run const&, Run const&) = default;
  };
  /// Packed keys [first, end) that a row does not read, although others of its group do.
  struct Hole {
    std::int64_t first, end;
    friend bool operator==(Hole const&, Hole const&) = default;
  };
  /// Query rows [query, query + rows) of a sequence. The last `rows` of its packed keys are their own.
  struct Group {
    std::int64_t query, rows, keys;
    std::vector<Run> runs;                 // in the order of keys
    std::int64_t block, first_block;       // rows per block, and the block of the first row
    std::vector<std::vector<Hole>> holes;  // by block of rows
    /// Number of packed keys up to row i's own.
    [[nodiscard]] std::int64_t past(std::int64_t i) const { return keys - rows + i + 1; }
    [[nodiscard]] std::span<Hole const> holes_of(std::int64_t i) const {
      return holes[static_cast<std::size_t>((query + i) / block - first_block)];
    }
    friend bool operator==(Group const&, Group const&) = default;
  };

  /// Every row reads all keys up to its own.
  [[nodiscard]] static KeyBlocks dense(std::int64_t context);
  /// For heads [first, first + count) of a causal layout.
  KeyBlocks(zeroth::BlockLayout const& layout, std::int64_t first, std::int64_t count);

  /// The last group of rows comes first.
  [[nodiscard]] std::span<Group const> groups(std::int64_t head) const { return lists_[list_of(head)]; }
  [[nodiscard]] std::int64_t context() const { return context_; }
  /// Heads with distinct lists. Every other head has the same lists as one of them.
  [[nodiscard]] std::vector<std::int64_t> distinct_heads() const;
  /// The index of the distinct head with the lists of `head`.
  [[nodiscard]] std::size_t list_of(std::int64_t head) const {
    return which_.size() == 1 ? which_.front() : which_[static_cast<std::size_t>(head)];
  }

 private:
  explicit KeyBlocks(std::int64_t context) : context_{context} {}

  std::int64_t context_;
  std::vector<std::vector<Group>> lists_;
  std::vector<std::size_t> which_;  // by head, or one for all heads
};

}  // namespace gpt
