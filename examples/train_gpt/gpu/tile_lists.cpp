// SPDX-License-Identifier: Apache-2.0
#include "gpu/tile_lists.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <span>

#include "zeroth/core/error.hpp"

namespace gpt::gpu {
namespace {

using Group = KeyBlocks::Group;

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Calls `f(key)` for the first key of each cell that the rows of the group from `i` on, one cell of them, read.
template <class F>
void each_cell(Group const& group, std::int64_t i, F const& f) {
  auto const last = i + cell_side - 1;  // in the same block as row i, and reads the most keys
  auto const holes = group.holes_of(i);
  auto hole = holes.begin();
  for (auto const& run : group.runs) {
    for (std::int64_t k = 0; k < run.count; k += cell_side) {
      auto const packed = run.at + k;
      hole = std::find_if(hole, holes.end(), [&](KeyBlocks::Hole const& h) { return packed < h.end; });
      bool const hidden = hole != holes.end() && hole->first <= packed;
      if (!hidden && packed < group.past(last)) {
        f(run.key + k);
      }
    }
  }
}

Group const& group_at(std::span<Group const> groups, std::int64_t row) {
  return groups[groups.size() - 1 - static_cast<std::size_t>(row / KeyBlocks::query_rows)];  // the last one comes first
}

std::int32_t narrow(std::size_t count) {
  ZEROTH_EXPECTS(count <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
                 "a layout of attention with more than 2^31 pairs of tiles");
  return static_cast<std::int32_t>(count);
}

/// For each tile of keys, the cells of the queries' tile at `first` that read it.
std::vector<std::uint32_t> cells_of_tile(std::span<Group const> groups, std::int64_t context, std::int64_t first,
                                         std::int64_t own, std::int64_t visited) {
  std::vector<std::uint32_t> cells(static_cast<std::size_t>(divided_up(context, visited)));
  auto const across = visited / cell_side;
  for (auto row = first; row < std::min(first + own, context); row += cell_side) {
    auto const& group = group_at(groups, row);
    each_cell(group, row - group.query, [&](std::int64_t key) {
      auto const bit = (row - first) / cell_side * across + key % visited / cell_side;
      cells[static_cast<std::size_t>(key / visited)] |= 1U << bit;
    });
  }
  return cells;
}

/// The same cells, of the visited tile.
std::uint32_t transposed(std::uint32_t cells, std::int64_t own_cells, std::int64_t visited_cells) {
  std::uint32_t result = 0;
  for (std::int64_t i = 0; i < own_cells; ++i) {
    for (std::int64_t j = 0; j < visited_cells; ++j) {
      result |= (cells >> (i * visited_cells + j) & 1U) << (j * own_cells + i);
    }
  }
  return result;
}

}  // namespace

TileLists keys_of_queries(KeyBlocks const& blocks, std::int64_t own, std::int64_t visited) {
  TileLists lists;
  auto const context = blocks.context();
  for (auto const head : blocks.distinct_heads()) {
    auto const groups = blocks.groups(head);
    auto const block = groups.front().block;
    ZEROTH_EXPECTS(block % cell_side == 0 && context % block == 0, "blocks that are no whole cells");
    for (std::int64_t first = 0; first < context; first += own) {
      lists.begins.push_back(narrow(lists.entries.size()));
      auto const cells = cells_of_tile(groups, context, first, own, visited);
      for (std::size_t tile = 0; tile < cells.size(); ++tile) {
        if (cells[tile] != 0) {
          lists.entries.push_back({static_cast<std::int32_t>(static_cast<std::int64_t>(tile) * visited), cells[tile]});
        }
      }
    }
    lists.begins.push_back(narrow(lists.entries.size()));
  }
  return lists;
}

TileLists queries_of_keys(KeyBlocks const& blocks, std::int64_t own, std::int64_t visited) {
  auto const of_queries = keys_of_queries(blocks, visited, own);
  TileLists lists;
  auto const tiles = divided_up(blocks.context(), own), others = divided_up(blocks.context(), visited);
  auto begin = of_queries.begins.begin();
  for (std::size_t list = 0; list < blocks.distinct_heads().size(); ++list, begin += others + 1) {
    std::vector<std::vector<TileVisit>> visits(static_cast<std::size_t>(tiles));
    for (std::int64_t query = 0; query < others; ++query) {
      for (auto i = begin[query]; i < begin[query + 1]; ++i) {
        auto const& entry = of_queries.entries[static_cast<std::size_t>(i)];
        visits[static_cast<std::size_t>(entry.row / own)].push_back(
            {static_cast<std::int32_t>(query * visited),
             transposed(entry.cells, visited / cell_side, own / cell_side)});
      }
    }
    for (auto const& of_tile : visits) {
      lists.begins.push_back(narrow(lists.entries.size()));
      lists.entries.insert(lists.entries.end(), of_tile.begin(), of_tile.end());
    }
    lists.begins.push_back(narrow(lists.entries.size()));
  }
  return lists;
}

PackedLists pack(KeyBlocks const& blocks, std::int64_t heads, TileLists const& lists) {
  PackedLists packed{.words = {}, .begins_at = heads, .entries_at = 0};
  for (std::int64_t head = 0; head < heads; ++head) {
    packed.words.push_back(static_cast<std::int32_t>(blocks.list_of(head)));
  }
  packed.words.insert(packed.words.end(), lists.begins.begin(), lists.begins.end());
  packed.words.resize(packed.words.size() + packed.words.size() % 2);  // entries have 8 bytes
  packed.entries_at = std::ssize(packed.words);
  packed.words.resize(packed.words.size() + lists.entries.size() * (sizeof(TileVisit) / sizeof(std::int32_t)));
  std::memcpy(packed.words.data() + packed.entries_at, lists.entries.data(), lists.entries.size() * sizeof(TileVisit));
  return packed;
}

}  // namespace gpt::gpu
