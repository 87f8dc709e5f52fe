// SPDX-License-Identifier: Apache-2.0
/// Maps parameters that tensor ranks saved in parts to other parts, or to whole parameters.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shard/layout.hpp"
#include "zeroth/checkpoint/contents.hpp"
#include "zeroth/model/cut.hpp"

namespace zeroth::checkpoint {

/// A saved part of a parameter, and the part of the same parameter that a rank holds or wants.
struct Crossing {
  Found at;
  model::CutPart saved, held;
  /// Ascending ranges of `saved` that contain all wanted elements. Other elements in them are read along.
  std::vector<shard::Range> asked;

  /// Calls `f(in_saved, in_held, count)` for the elements of [first, first + count) of `saved` that `held` has too.
  template <class F>
  void each_run(std::int64_t first, std::int64_t count, F const& f) const {
    model::each_common_run(saved, held, first, count, f);
  }
};

/// Finds elements [first, first + count) of the part `held` of a parameter, whose saved parts are `parts` (see
/// Contents::by_name()). Returns one crossing for each part that has any of them.
[[nodiscard]] std::vector<Crossing> crossings(Contents const& contents, std::span<Found const> parts,
                                              model::CutPart const& held, std::int64_t first, std::int64_t count);

/// A piece of a file, and the index in Crossing::saved of its first element.
struct PieceOfPart {
  Piece piece;
  std::int64_t first = 0;
};

/// The file pieces of a state that `crossing` asks for.
[[nodiscard]] std::vector<PieceOfPart> pieces_of(Contents const& contents, Crossing const& crossing,
                                                 SavedState const& state);

}  // namespace zeroth::checkpoint
