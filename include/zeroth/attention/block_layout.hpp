// SPDX-License-Identifier: Apache-2.0
/// Block-sparse attention: which blocks of keys each block of queries reads.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// The rule by which blocks are chosen.
enum class SparseMode : std::uint8_t {
  dense,                ///< All blocks.
  fixed,                ///< Windows of equal size, and the same global blocks of each.
  variable,             ///< Windows of given sizes, given global blocks, and random blocks.
  bigbird,              ///< A sliding window, the first blocks as global ones, and random blocks.
  bslongformer,         ///< A sliding window, and given global blocks.
  local_sliding_window  ///< A sliding window.
};
/// The modes, in the order of their values.
inline constexpr SparseMode sparse_modes[] = {SparseMode::dense,        SparseMode::fixed,
                                              SparseMode::variable,     SparseMode::bigbird,
                                              SparseMode::bslongformer, SparseMode::local_sliding_window};
/// The name in stage files.
[[nodiscard]] ZEROTH_EXPORT std::string_view name_of(SparseMode mode) noexcept;

/// Which keys a query may read, whatever the mode.
enum class AttentionDirection : std::uint8_t {
  unidirectional,  ///< Its own and earlier ones.
  bidirectional    ///< All.
};

/// A mistake in a SparseAttention.
struct SparseAttentionProblem {
  std::string_view field;  ///< The member, by its name.
  std::string why;         ///< Its value, what is wrong, and what is allowed.
};

/// The parameters of a layout, with the names and defaults that DeepSpeed's `sparse_attention` had until 0.18. A mode
/// ignores those that uses() excludes.
struct SparseAttention {
  SparseMode mode = SparseMode::fixed;                               ///< The rule.
  std::int64_t block = 16;                                           ///< Tokens per block. It divides the context.
  AttentionDirection attention = AttentionDirection::bidirectional;  ///< Whether queries read later keys.
  bool different_layout_per_head = false;  ///< Each head has a layout of its own; otherwise all have the first head's.
  std::int64_t num_local_blocks = 4;       ///< Blocks per window.
  /// Blocks that all queries read: of each window for `fixed`, of the context for `bigbird`.
  std::int64_t num_global_blocks = 1;
  /// `fixed`: heads take turns with this many choices of a window's global blocks. The first takes the last blocks.
  std::int64_t num_different_global_patterns = 1;
  bool horizontal_global_attention = false;           ///< Queries in global blocks read all keys.
  std::int64_t num_random_blocks = 0;                 ///< Random blocks per block of queries.
  std::int64_t num_sliding_window_blocks = 3;         ///< Half of it, rounded down, before and after a block.
  std::vector<std::int64_t> local_window_blocks{4};   ///< Blocks of the first windows; the last size repeats.
  std::vector<std::int64_t> global_block_indices{0};  ///< Global blocks, or their first ones. Later than the end: none.
  /// Ends of ranges of global blocks that begin at `global_block_indices`. Empty: each range is one block.
  std::vector<std::int64_t> global_block_end_indices{};

  /// Whether the mode reads a member. Throws ContractError for a name that is none.
  [[nodiscard]] ZEROTH_EXPORT bool uses(std::string_view field) const;
  /// The mistakes in members that the mode reads, whatever the context. Empty if there are none.
  [[nodiscard]] ZEROTH_EXPORT std::vector<SparseAttentionProblem> problems() const;
  /// The same, and those for a context of this many tokens.
  [[nodiscard]] ZEROTH_EXPORT std::vector<SparseAttentionProblem> problems(std::int64_t context) const;
  /// Compares all members.
  friend bool operator==(SparseAttention const&, SparseAttention const&) = default;
};

/// One bit for each head, block of queries and block of keys: whether these queries read these keys.
///
/// A pure function of its arguments: equal on every rank and machine. Every block of queries reads its own block of
/// keys. In a unidirectional layout no block of queries reads a later block of keys; in the blocks on the diagonal the
/// program masks later keys. Random blocks are Philox's for seed, head and row. Immutable, so threads may share it.
class ZEROTH_EXPORT BlockLayout {
 public:
  /// The max number of blocks of a context.
  static constexpr std::int64_t most_blocks = std::int64_t{1} << 16U;

  /// Throws a ContractError that lists every problem of the parameters, and for less than one head.
  BlockLayout(SparseAttention const& parameters, std::int64_t heads, std::int64_t context, std::uint64_t seed = 0);

  [[nodiscard]] std::int64_t heads() const noexcept { return heads_; }              ///< Heads.
  [[nodiscard]] std::int64_t blocks() const noexcept { return blocks_; }            ///< Blocks of the context.
  [[nodiscard]] std::int64_t block() const noexcept { return block_; }              ///< Tokens per block.
  [[nodiscard]] std::int64_t context() const noexcept { return blocks_ * block_; }  ///< Tokens.
  [[nodiscard]] bool causal() const noexcept { return causal_; }                    ///< Whether it is unidirectional.
  /// Whether block `row` of a head's queries reads block `column` of its keys. Throws ContractError for indices
  /// outside.
  [[nodiscard]] bool has(std::int64_t head, std::int64_t row, std::int64_t column) const;
  /// The blocks of keys that a block of queries reads, ascending. Throws ContractError for indices outside.
  [[nodiscard]] std::vector<std::int64_t> columns(std::int64_t head, std::int64_t row) const;
  /// Number of blocks that a head reads. Throws ContractError for a head outside.
  [[nodiscard]] std::int64_t count(std::int64_t head) const;
  /// The fraction of blocks that heads read, of those that a dense layout of the same direction reads.
  [[nodiscard]] double density() const noexcept;
  /// Whether both have the same bits, block size and direction.
  [[nodiscard]] friend bool operator==(BlockLayout const& left, BlockLayout const& right) noexcept {
    return left.heads_ == right.heads_ && left.blocks_ == right.blocks_ && left.block_ == right.block_ &&
           left.causal_ == right.causal_ && left.equal_bits(right);
  }

 private:
  [[nodiscard]] bool equal_bits(BlockLayout const& other) const noexcept;
  [[nodiscard]] std::uint64_t const* row_of(std::int64_t head, std::int64_t row) const noexcept;

  std::int64_t heads_, blocks_, block_;
  std::int64_t stored_heads_, row_words_;
  bool causal_;
  std::vector<std::uint64_t> bits_;  // [stored heads, blocks, words of a row]
};

}  // namespace zeroth
