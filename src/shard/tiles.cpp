// SPDX-License-Identifier: Apache-2.0
#include "shard/tiles.hpp"

#include <algorithm>
#include <cmath>

#include "shard/memory_plan.hpp"

namespace zeroth::shard {
namespace {

constexpr std::int64_t down(std::int64_t count) noexcept { return count / tile_alignment_count * tile_alignment_count; }

/// Elements of `flat` that a rank holds.
std::int64_t parameters_held(FlatUnit const& flat, Placement placement, Places const& places) noexcept {
  return held(flat.trainable, placement, places, 0).count() + held(flat.frozen, placement, places, 0).count();
}

}  // namespace

Tiles cut_tiles(Layout const& layout, ById<FlatId, char> const& has_states, Placement optimizer, Places const& places,
                Offload const& offload) {
  Tiles tiles;
  std::int64_t all = 0;
  for (auto const flat : layout.flats().ids()) {
    tiles.in_memory.push_back(held(layout.flats()[flat].trainable, optimizer, places, 0).count());
    all += has_states[flat] != 0 ? tiles.in_memory.back() : 0;
  }
  if (offload.ratio == 0) {
    return tiles;
  }
  auto left = static_cast<std::int64_t>(std::llround((1 - offload.ratio) * static_cast<double>(all)));
  auto const most = tile_count(offload.tile_count);
  for (auto const flat : layout.update_order()) {
    if (has_states[flat] == 0) {
      continue;
    }
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

ById<FlatId, char> parameters_on_disk(Layout const& layout, PlanRequest const& request) {
  auto const& offload = request.offload_parameters;
  auto const& flats = layout.flats();
  ById<FlatId, char> on_disk(flats.size());
  if (offload.disk.ratio == 0) {
    return on_disk;
  }
  auto const ids = flats.ids();
  std::vector<FlatId> by_use(ids.begin(), ids.end());
  std::ranges::stable_sort(by_use, {}, [&](FlatId flat) { return flats[flat].users.front(); });
  auto left = offload.in_memory_count;
  for (auto const flat : by_use) {
    auto const placement = placement_of_parameters(flats[flat], request);
    auto const count = parameters_held(flats[flat], placement, request.places);
    if (placement == Placement::whole || count <= left) {
      left -= placement == Placement::whole ? 0 : count;
    } else {
      on_disk[flat] = 1;
    }
  }
  return on_disk;
}

std::vector<Tile> cut_parameters(Layout const& layout, Tiles const& states, ById<FlatId, char> const& on_disk,
                                 std::int64_t most_count) {
  std::vector<Tile> pieces;
  auto const most = tile_count(most_count);
  auto const cut = [&](FlatId flat, Range elements) {
    for (auto first = elements.begin; first < elements.end; first += most) {
      pieces.push_back({flat, {first, std::min(first + most, elements.end)}});
    }
  };
  std::size_t next = 0;
  for (auto const flat : layout.update_order()) {
    if (on_disk[flat] != 0) {
      cut(flat, {0, states.in_memory[flat]});
    }
    for (; next < states.on_disk.size() && states.on_disk[next].flat == flat; ++next) {
      if (on_disk[flat] != 0) {
        cut(flat, states.on_disk[next].elements);
      }
    }
  }
  return pieces;
}

}  // namespace zeroth::shard
