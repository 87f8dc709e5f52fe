// SPDX-License-Identifier: Apache-2.0
/// From parameters as tensor ranks had cut them to parameters as others cut them, or as they are whole.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shard/layout.hpp"
#include "zeroth/checkpoint/contents.hpp"
#include "zeroth/model/cut.hpp"

namespace zeroth::checkpoint {

/// A part of a parameter as it was saved, and what somebody has or wants of the same parameter.
struct Crossing {
  Found at;
  model::CutPart saved, held;
  /// Ascending, of elements of `saved`. All that are asked for lie in one. What else does is read with them anyway.
  std::vector<shard::Range> asked;

  /// Calls `f(in_saved, in_held, count)` for those of elements [first, first + count) of `saved` that `held` has.
  template <class F>
  void each_run(std::int64_t first, std::int64_t count, F const& f) const {
    model::each_common_run(saved, held, first, count, f);
  }
};

/// Where elements [first, first + count) of `held` are, a part of a parameter whose saved parts are `parts`
/// (Contents::by_name()). One for each of those that has any.
[[nodiscard]] std::vector<Crossing> crossings(Contents const& contents, std::vector<Found> const& parts,
                                              model::CutPart const& held, std::int64_t first, std::int64_t count);

/// A piece of a file, and the element of Crossing::saved that it begins with.
struct PieceOfPart {
  Piece piece;
  std::int64_t first = 0;
};

/// What `crossing` asks for of a state.
[[nodiscard]] std::vector<PieceOfPart> pieces_of(Contents const& contents, Crossing const& crossing,
                                                 SavedState const& state);

}  // namespace zeroth::checkpoint
