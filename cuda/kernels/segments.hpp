// SPDX-License-Identifier: Apache-2.0
/// Segments of an update as arguments of a kernel.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "cuda/block.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::cuda {

/// Some of the segments of an update, and the tiles of work that they have, numbered from the first one's on. They are
/// passed by value, as kernel arguments, so that a step neither copies nor keeps them.
struct SegmentTiles {
  static constexpr int most = 80;  // keeps a kernel's arguments below 4 KiB

  int count = 0;
  optim::Segment segments[most] = {};
  std::int64_t tiles_through[most] = {};  ///< Sum of the tiles of all segments up to this one.

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles() const { return count == 0 ? 0 : tiles_through[count - 1]; }

  /// The segment of a tile: the first one whose tiles end after it.
  [[nodiscard]] ZEROTH_DEVICE int segment_of(std::int64_t tile) const {
    int low = 0;
    for (int high = count - 1; low < high;) {
      int const middle = (low + high) / 2;
      if (tiles_through[middle] > tile) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  /// The index of a tile among those of its segment.
  [[nodiscard]] ZEROTH_DEVICE std::int64_t index_in(int segment, std::int64_t tile) const {
    return segment == 0 ? tile : tile - tiles_through[segment - 1];
  }

  void add(optim::Segment const& segment, std::int64_t its_tiles) {
    segments[count] = segment;
    tiles_through[count] = tiles() + its_tiles;
    ++count;
  }
};

/// Launches `body`, whose member `segments` is empty, on all `segments`, as many at a time as it takes. Empty ones are
/// left out.
template <class Launch, class Body>
[[nodiscard]] cudaError_t launch_on_segments(Launch const& launch, Body& body,
                                             std::span<optim::Segment const> segments) {
  static_assert(sizeof(Body) <= 4096);
  for (auto const& segment : segments) {
    if (segment.begin == segment.end) {
      continue;
    }
    if (body.segments.count == SegmentTiles::most) {
      if (auto const result = launch(body, body.segments.tiles()); result != cudaSuccess) {
        return result;
      }
      body.segments.count = 0;
    }
    body.segments.add(segment, body.tiles_of_segment(segment));
  }
  return body.segments.count == 0 ? cudaSuccess : launch(body, body.segments.tiles());
}

}  // namespace zeroth::cuda
