// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "zeroth/attention/block_layout.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {
namespace {

constexpr std::string_view mode_names[] = {"dense",   "fixed",        "variable",
                                           "bigbird", "bslongformer", "local_sliding_window"};
static_assert(std::size(mode_names) == std::size(sparse_modes));

/// A member, and the modes that read it: one bit for each.
struct Field {
  std::string_view name;
  unsigned modes;
};
constexpr unsigned bit(SparseMode mode) { return 1U << static_cast<unsigned>(mode); }
constexpr unsigned all_modes = (1U << std::size(sparse_modes)) - 1;
constexpr unsigned sliding =
    bit(SparseMode::bigbird) | bit(SparseMode::bslongformer) | bit(SparseMode::local_sliding_window);
constexpr unsigned given_global = bit(SparseMode::variable) | bit(SparseMode::bslongformer);
constexpr Field fields[] = {
    {"mode", all_modes},
    {"block", all_modes},
    {"attention", all_modes},
    {"different_layout_per_head", all_modes & ~(bit(SparseMode::dense) | bit(SparseMode::local_sliding_window))},
    {"num_local_blocks", bit(SparseMode::fixed)},
    {"num_global_blocks", bit(SparseMode::fixed) | bit(SparseMode::bigbird)},
    {"num_different_global_patterns", bit(SparseMode::fixed)},
    {"horizontal_global_attention", bit(SparseMode::fixed) | bit(SparseMode::variable)},
    {"num_random_blocks", bit(SparseMode::variable) | bit(SparseMode::bigbird)},
    {"num_sliding_window_blocks", sliding},
    {"local_window_blocks", bit(SparseMode::variable)},
    {"global_block_indices", given_global},
    {"global_block_end_indices", given_global},
};

/// Collects problems of the members that the mode reads.
class Check {
 public:
  explicit Check(SparseAttention const& parameters) : p_{parameters} {}

  void at_least(std::string_view field, std::int64_t value, std::int64_t least) {
    if (value < least) {
      add(field, fmt::format("{}; allowed: {} or more", value, least));
    }
  }
  /// `known`: `blocks` is the number of the context's blocks, otherwise the maximum of any context.
  void at_most_blocks(std::string_view field, std::int64_t value, std::int64_t blocks, bool known) {
    if (value > blocks) {
      add(field, fmt::format("{}, but {} {} blocks; allowed: up to {}", value,
                             known ? "the context has" : "a context has at most", blocks, blocks));
    }
  }
  void ascend(std::string_view field, std::vector<std::int64_t> const& values) {
    auto const later = std::ranges::adjacent_find(values, std::ranges::greater_equal{});
    if (later != values.end()) {
      add(field, fmt::format("a list with {} after {}; allowed: increasing numbers", later[1], later[0]));
    }
  }
  void add(std::string_view field, std::string why) {
    if (p_.uses(field) && (found_.empty() || found_.back().field != field)) {
      found_.push_back({field, std::move(why)});
    }
  }
  [[nodiscard]] bool none() const { return found_.empty(); }
  [[nodiscard]] std::vector<SparseAttentionProblem> found() { return std::move(found_); }

 private:
  SparseAttention const& p_;
  std::vector<SparseAttentionProblem> found_;
};

void check_patterns(SparseAttention const& p, Check& check) {
  auto const patterns = p.num_different_global_patterns;
  check.at_least("num_different_global_patterns", patterns, 1);
  if (p.num_local_blocks < 1 || p.num_global_blocks < 1) {
    return;
  }
  if (p.mode == SparseMode::fixed && p.num_local_blocks % p.num_global_blocks != 0) {
    check.add("num_global_blocks", fmt::format("{}, which does not divide num_local_blocks, {}; allowed: its divisors",
                                               p.num_global_blocks, p.num_local_blocks));
    return;
  }
  auto const choices = p.num_local_blocks / p.num_global_blocks;
  if (patterns > choices) {
    check.add("num_different_global_patterns",
              fmt::format("{}, but a window has {} choices, num_local_blocks ({}) / num_global_blocks ({}); allowed: "
                          "1 to {}",
                          patterns, choices, p.num_local_blocks, p.num_global_blocks, choices));
  } else if (patterns > 1 && !p.different_layout_per_head) {
    check.add("num_different_global_patterns",
              fmt::format("{}, but different_layout_per_head is false, so all heads have one; allowed: 1, or set "
                          "different_layout_per_head",
                          patterns));
  }
}

void check_given_global(SparseAttention const& p, Check& check) {
  auto const& first = p.global_block_indices;
  auto const& end = p.global_block_end_indices;
  if (!first.empty()) {
    check.at_least("global_block_indices", std::ranges::min(first), 0);
  }
  check.ascend("global_block_indices", first);
  if (end.empty()) {
    return;
  }
  if (end.size() != first.size()) {
    check.add("global_block_end_indices", fmt::format("a list of length {}, but global_block_indices has length {}; "
                                                      "allowed: one end for each, or no ends",
                                                      end.size(), first.size()));
    return;
  }
  for (std::size_t i = 0; i < end.size(); ++i) {
    if (end[i] <= first[i]) {
      check.add("global_block_end_indices",
                fmt::format("a list with the end {} of a range that begins at {} (global_block_indices); allowed: more",
                            end[i], first[i]));
    }
  }
  check.ascend("global_block_end_indices", end);
}

void check_windows(SparseAttention const& p, Check& check) {
  if (p.local_window_blocks.empty()) {
    check.add("local_window_blocks", "an empty list; allowed: at least one size");
  } else {
    check.at_least("local_window_blocks", std::ranges::min(p.local_window_blocks), 1);
  }
}

/// In the order of the members. Without `context`, only what holds for all of them.
std::vector<SparseAttentionProblem> problems_of(SparseAttention const& p, std::int64_t const* context) {
  Check check{p};
  check.at_least("block", p.block, 1);
  bool const whole = context != nullptr && p.block >= 1 && *context >= 1 && *context % p.block == 0;
  if (context != nullptr && p.block >= 1 && !whole) {
    check.add("block",
              fmt::format("{}, which does not divide the context, {}; allowed: its divisors", p.block, *context));
  }
  auto const blocks = whole ? *context / p.block : BlockLayout::most_blocks;
  if (blocks > BlockLayout::most_blocks) {
    check.add("block", fmt::format("{}, which divides the context, {}, into {} blocks; allowed: up to {} blocks",
                                   p.block, *context, blocks, BlockLayout::most_blocks));
  }
  auto const most = std::min(blocks, BlockLayout::most_blocks);
  check.at_least("num_local_blocks", p.num_local_blocks, 1);
  check.at_least("num_global_blocks", p.num_global_blocks, 1);
  check.at_most_blocks("num_global_blocks", p.num_global_blocks, most, whole);
  check_patterns(p, check);
  if (p.horizontal_global_attention && p.attention == AttentionDirection::unidirectional) {
    check.add("horizontal_global_attention",
              "true, but attention is \"unidirectional\", so no query reads all keys; allowed: false, or attention "
              "\"bidirectional\"");
  }
  check.at_least("num_random_blocks", p.num_random_blocks, 0);
  check.at_most_blocks("num_random_blocks", p.num_random_blocks, most, whole);
  check.at_least("num_sliding_window_blocks", p.num_sliding_window_blocks, 1);
  check.at_most_blocks("num_sliding_window_blocks", p.num_sliding_window_blocks, most, whole);
  check_windows(p, check);
  check_given_global(p, check);
  return check.found();
}

}  // namespace

std::string_view name_of(SparseMode mode) noexcept { return mode_names[static_cast<std::size_t>(mode)]; }

bool SparseAttention::uses(std::string_view field) const {
  auto const* const found = std::ranges::find(fields, field, &Field::name);
  ZEROTH_EXPECTS(found != std::end(fields),
                 fmt::format("SparseAttention::uses(\"{}\"): that is no member of SparseAttention", field));
  return (found->modes & bit(mode)) != 0;
}

std::vector<SparseAttentionProblem> SparseAttention::problems() const { return problems_of(*this, nullptr); }

std::vector<SparseAttentionProblem> SparseAttention::problems(std::int64_t context) const {
  return problems_of(*this, &context);
}

}  // namespace zeroth
