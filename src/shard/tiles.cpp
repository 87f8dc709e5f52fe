// SPDX-License-Identifier: Apache-2.0
#include "shard/tiles.hpp"

#include <algorithm>
#include <cmath>

#include "shard/memory_plan.hpp"

namespace zeroth::shard {
namespace {

constexpr std::int64_t down(std::int64_t count) noexcept { return count / tile_alignment_count * tile_alignment_count; }

}  // namespace

Tiles cut_tiles(Layout const& layout, Placement optimizer, Places const& places, Offload const& offload) {
  Tiles tiles;
  std::int64_t all = 0;
  for (auto const& flat : layout.flats()) {
    tiles.in_memory.push_back(held(flat.trainable, optimizer, places, 0).count());
    all += tiles.in_memory.back();
  }
  if (offload.ratio == 0) {
    return tiles;
  }
  auto left = static_cast<std::int64_t>(std::llround((1 - offload.ratio) * static_cast<double>(all)));
  auto const most = std::max(tile_alignment_count, down(offload.tile_count));
  auto const completion = layout.completion_order();
  for (auto each = completion.rbegin(); each != completion.rend(); ++each) {
    auto const flat = *each;
    auto& in_memory = tiles.in_memory[flat];
    auto const count = in_memory;
    in_memory = left >= count ? count : down(left);
    left = left >= count ? left - count : 0;
    for (auto first = in_memory; first < count; first += most) {
      tiles.on_disk.push_back({flat, {first, std::min(first + most, count)}});
      tiles.largest_count = std::max(tiles.largest_count, tiles.on_disk.back().elements.count());
    }
  }
  return tiles;
}

}  // namespace zeroth::shard
