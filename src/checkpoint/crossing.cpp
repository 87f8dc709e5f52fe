// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/crossing.hpp"

#include <utility>

#include "zeroth/core/dtype.hpp"

namespace zeroth::checkpoint {
namespace {

/// Maximum gap between two ranges that are read as one: at any dtype the gap shares a hashed block with one of them.
constexpr std::int64_t most_between = hashed_bytes / bytes_of(Dtype::fp32);

/// The ranges of `saved` with the elements of `held`.
std::vector<shard::Range> asked_of(model::CutPart const& saved, model::CutPart const& held, std::int64_t first,
                                   std::int64_t count) {
  std::vector<shard::Range> asked;
  model::each_common_run(held, saved, first, count, [&](std::int64_t, std::int64_t begin, std::int64_t some) {
    if (asked.empty() || begin - asked.back().end > most_between) {
      asked.push_back({begin, begin});
    }
    asked.back().end = begin + some;
  });
  return asked;
}

}  // namespace

std::vector<Crossing> crossings(Contents const& contents, std::span<Found const> parts, model::CutPart const& held,
                                std::int64_t first, std::int64_t count) {
  std::vector<Crossing> found;
  for (auto const at : parts) {
    auto const& param = contents.spaces[at.space].params[at.param];
    if (auto saved = param.part(); saved == held && !saved.has_padding()) {  // contiguous
      auto const all = model::CutPart::all_of(param.count);
      found.push_back({at, all, all, {{first, first + count}}});
    } else if (auto asked = asked_of(saved, held, first, count); !asked.empty()) {
      found.push_back({at, std::move(saved), held, std::move(asked)});
    }
  }
  return found;
}

std::vector<PieceOfPart> pieces_of(Contents const& contents, Crossing const& crossing, SavedState const& state) {
  std::vector<PieceOfPart> pieces;
  auto const& space = contents.spaces[crossing.at.space];
  auto const begin = space.params[crossing.at.param].at;
  for (auto const& range : crossing.asked) {
    auto first = range.begin;
    for (auto const& piece : pieces_of(space, state, begin + first, range.count())) {
      pieces.push_back({piece, first});
      first += piece.bytes / bytes_of(state.dtype);
    }
  }
  return pieces;
}

}  // namespace zeroth::checkpoint
