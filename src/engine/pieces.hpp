// SPDX-License-Identifier: Apache-2.0
/// Walks over a sharded parameter slice by slice, in pieces that fit into a buffer.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "shard/values.hpp"

namespace zeroth::engine {

/// Calls `take(owner, first, piece)` for all elements in order. Elements [first, first + piece.size()) of `param` are
/// in the slice of rank `owner`. `piece` is the front of `buffer`.
template <class F>
void each_piece(shard::Values const& values, ParamId param, int world, std::span<float> buffer, F const& take) {
  for (int owner = 0; owner < world; ++owner) {
    auto const range = values.slice_of(param, owner);
    for (auto first = range.begin; first < range.end; first += std::ssize(buffer)) {
      take(owner, first, buffer.first(std::min(buffer.size(), static_cast<std::size_t>(range.end - first))));
    }
  }
}

}  // namespace zeroth::engine
