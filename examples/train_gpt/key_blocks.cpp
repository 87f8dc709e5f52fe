// SPDX-License-Identifier: Apache-2.0
#include "key_blocks.hpp"

#include <algorithm>
#include <iterator>

#include "zeroth/core/error.hpp"

namespace gpt {
namespace {

/// Ranges of the keys before `end` that a block of rows reads.
struct Range {
  std::int64_t first, end;
};

std::vector<Range> ranges_of(std::vector<std::int64_t> const& columns, std::int64_t block, std::int64_t end) {
  std::vector<Range> ranges;
  for (auto const column : columns) {
    auto const first = column * block;
    if (first >= end) {
      break;
    }
    auto const last = std::min(first + block, end);
    if (!ranges.empty() && ranges.back().end == first) {
      ranges.back().end = last;
    } else {
      ranges.push_back({first, last});
    }
  }
  return ranges;
}

/// The packed keys of `runs` that are not in `seen`.
std::vector<KeyBlocks::Hole> holes_in(std::vector<KeyBlocks::Run> const& runs, std::vector<Range> const& seen) {
  std::vector<KeyBlocks::Hole> holes;
  auto next = seen.begin();
  for (auto const& run : runs) {
    auto key = run.key;
    auto const end = run.key + run.count;
    while (key < end) {
      while (next != seen.end() && next->end <= key) {
        ++next;
      }
      auto const visible = next == seen.end() ? end : std::clamp(next->first, key, end);
      if (visible > key) {
        holes.push_back({run.at + key - run.key, run.at + visible - run.key});
      }
      key = next == seen.end() ? end : std::max(visible, std::min(next->end, end));
    }
  }
  return holes;
}

KeyBlocks::Group group_of(zeroth::BlockLayout const& layout, std::int64_t head, std::int64_t query, std::int64_t end) {
  auto const block = layout.block();
  KeyBlocks::Group group{.query = query,
                         .rows = end - query,
                         .keys = 0,
                         .runs = {},
                         .block = block,
                         .first_block = query / block,
                         .holes = {}};
  auto const last_block = (end - 1) / block;
  std::vector<std::int64_t> all;
  for (auto row = group.first_block; row <= last_block; ++row) {
    auto const columns = layout.columns(head, row);
    std::vector<std::int64_t> merged;
    std::ranges::set_union(all, columns, std::back_inserter(merged));
    all = std::move(merged);
  }
  for (auto const& range : ranges_of(all, block, end)) {
    group.runs.push_back({range.first, range.end - range.first, group.keys});
    group.keys += range.end - range.first;
  }
  for (auto row = group.first_block; row <= last_block; ++row) {
    // Keys after a row's own do not count, so the holes end with the row's block.
    auto holes = holes_in(group.runs, ranges_of(layout.columns(head, row), block, end));
    auto const own = group.past(std::min((row + 1) * block, end) - 1 - query);
    std::erase_if(holes, [&](KeyBlocks::Hole const& hole) { return hole.first >= own; });
    group.holes.push_back(std::move(holes));
  }
  return group;
}

}  // namespace

KeyBlocks KeyBlocks::dense(std::int64_t context) {
  KeyBlocks result{context};
  result.which_.push_back(0);
  auto& groups = result.lists_.emplace_back();
  for (auto end = context; end > 0;) {
    auto const query = (end - 1) / query_rows * query_rows;
    groups.push_back({.query = query,
                      .rows = end - query,
                      .keys = end,
                      .runs = {{0, end, 0}},
                      .block = context,
                      .first_block = 0,
                      .holes = {{}}});
    end = query;
  }
  return result;
}

KeyBlocks::KeyBlocks(zeroth::BlockLayout const& layout, std::int64_t first, std::int64_t count)
    : context_{layout.context()} {
  ZEROTH_EXPECTS(layout.causal(), "train_gpt's attention is causal, and the layout is bidirectional");
  for (auto head = first; head < first + count; ++head) {
    std::vector<Group> groups;
    for (auto end = context_; end > 0;) {
      auto const query = (end - 1) / query_rows * query_rows;
      groups.push_back(group_of(layout, head, query, end));
      end = query;
    }
    auto const same = std::ranges::find(lists_, groups);
    which_.push_back(static_cast<std::size_t>(same - lists_.begin()));
    if (same == lists_.end()) {
      lists_.push_back(std::move(groups));
    }
  }
}

std::vector<std::int64_t> KeyBlocks::distinct_heads() const {
  std::vector<std::int64_t> heads;
  for (std::size_t list = 0; list < lists_.size(); ++list) {
    heads.push_back(std::ranges::find(which_, list) - which_.begin());
  }
  return heads;
}

}  // namespace gpt
