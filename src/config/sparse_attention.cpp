// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "config/assemble.hpp"
#include "config/named_rules.hpp"

namespace zeroth::config {
namespace {

constexpr std::string_view sparse_section = "zeroth.sparse_attention.";

template <Path P>
void take_list(Values const& values, std::vector<std::int64_t>& list) {
  if (values.says<P>()) {
    list = values.get<P>().copy();
  }
}

/// Whether the value is set, and not to the default: what Config::to_json() prints must be accepted.
bool asks_for_more(Values const& values, std::size_t key) {
  auto const& value = values.entries[key].value;
  return values.says(key) && value && *value != keys[key].value;
}

SparseAttention layout_of(Values const& values) {
  SparseAttention result;
  result.mode = *std::ranges::find(sparse_modes, values.get<"zeroth.sparse_attention.mode">(),
                                   [](SparseMode mode) { return name_of(mode); });
  result.block = values.get<"zeroth.sparse_attention.block">();
  result.attention = values.get<"zeroth.sparse_attention.attention">() == "unidirectional"
                         ? AttentionDirection::unidirectional
                         : AttentionDirection::bidirectional;
  result.different_layout_per_head = values.get<"zeroth.sparse_attention.different_layout_per_head">();
  result.num_local_blocks = values.get<"zeroth.sparse_attention.num_local_blocks">();
  result.num_global_blocks = values.get<"zeroth.sparse_attention.num_global_blocks">();
  result.num_different_global_patterns = values.get<"zeroth.sparse_attention.num_different_global_patterns">();
  result.horizontal_global_attention = values.get<"zeroth.sparse_attention.horizontal_global_attention">();
  result.num_random_blocks = values.get<"zeroth.sparse_attention.num_random_blocks">();
  result.num_sliding_window_blocks = values.get<"zeroth.sparse_attention.num_sliding_window_blocks">();
  take_list<"zeroth.sparse_attention.local_window_blocks">(values, result.local_window_blocks);
  take_list<"zeroth.sparse_attention.global_block_indices">(values, result.global_block_indices);
  take_list<"zeroth.sparse_attention.global_block_end_indices">(values, result.global_block_end_indices);
  return result;
}

}  // namespace

std::optional<SparseAttention> sparse_attention(Values const& values) {
  return values.says<"zeroth.sparse_attention.mode">() ? std::optional{layout_of(values)} : std::nullopt;
}

std::string sparse_attention_has_mode(Values const& values) {
  bool holds = true;
  for (std::size_t key = 0; key < key_count; ++key) {
    holds = holds && (!keys[key].path.starts_with(sparse_section) || !asks_for_more(values, key));
  }
  return holds || values.says<"zeroth.sparse_attention.mode">()
             ? ""
             : fmt::format("missing, but other keys of zeroth.sparse_attention are set; allowed: {}",
                           allowed(keys[index_of<"zeroth.sparse_attention.mode">]));
}

std::string sparse_attention_is_possible(Values const& values, std::size_t key) {
  auto const layout = sparse_attention(values);
  if (!layout) {
    return {};
  }
  auto const field = keys[key].path.substr(sparse_section.size());
  if (asks_for_more(values, key) && !layout->uses(field)) {
    return fmt::format("is set, but zeroth.sparse_attention.mode is \"{}\", which does not use it; remove it",
                       name_of(layout->mode));
  }
  auto const problems = layout->problems();
  auto const found = std::ranges::find(problems, field, &SparseAttentionProblem::field);
  return found == problems.end() ? std::string{} : found->why;
}

}  // namespace zeroth::config
