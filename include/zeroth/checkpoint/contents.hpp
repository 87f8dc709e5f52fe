// SPDX-License-Identifier: Apache-2.0
/// Which element of which state is at which byte of which file: in closed form, so that a reader needs two divisions,
/// and nothing of the stage, the buckets, the paddings or the number of ranks that wrote it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/model/cut.hpp"

namespace zeroth::checkpoint {

/// What a space has of a parameter that tensor ranks have cut.
struct SavedCut {
  Cut cut;          ///< The same in all spaces that have a part.
  TensorPart part;  ///< Which one this is; there are at least two.
};

/// One parameter in a space, or a part of it.
struct ZEROTH_EXPORT SavedParam {
  std::string name;                 ///< Global.
  std::vector<std::int64_t> shape;  ///< Of the whole, the outermost extent first.
  std::int64_t count = 0;           ///< Elements in the space: of a part with its padding, which is zero.
  std::int64_t at = 0;              ///< Its first element in the space.
  std::vector<std::string> ties;    ///< Further units that use it: for people.
  std::optional<SavedCut> cut;      ///< Empty: the space has all of it.

  [[nodiscard]] std::int64_t whole_count() const noexcept;  ///< Elements of the whole, without padding.
  /// Which of those in the space are which of the whole.
  [[nodiscard]] model::CutPart part() const;
  /// Which part the space has, from 0; 0 where it has all.
  [[nodiscard]] int index() const noexcept { return cut ? cut->part.index : 0; }
  /// True of one of the spaces that have a parameter: for what tells each once.
  [[nodiscard]] bool comes_first() const noexcept { return index() == 0; }
};

/// One number for each element of a space.
struct SavedState {
  std::string name;           ///< "master", the optimizer's as PyTorch calls them ("exp_avg"), or "frozen".
  Dtype dtype = Dtype::fp32;  ///< fp32, bf16 or fp16.
  std::int64_t base = 0;      ///< Bytes from the begin of the data of each file that has a slice to that.
};

/// The trainable or the frozen parameters of a unit end to end, cut into a slice for each of `places` files, which are
/// those of the ranks that had the unit. Element e of a parameter is element `g = at + e` of the space, and that is
/// element `g % slice_count` in file `first_place + g / slice_count`. What no parameter covers is zero. Each tensor
/// rank has spaces of its own; the first of them has those parameters that none has cut.
struct Space {
  std::string unit;                ///< For people.
  bool trainable = true;           ///< Otherwise its one state is "frozen".
  int first_place = 0;             ///< The first file that has a slice.
  int places = 1;                  ///< Files that have, one behind the other.
  std::int64_t slice_count = 0;    ///< Elements in each of those.
  std::vector<SavedParam> params;  ///< Ascending in `at`.
  std::vector<SavedState> states;  ///< In the order of the file.
};

/// Where a parameter is, or a part of it.
struct Found {
  std::size_t space = 0;  ///< In Contents::spaces.
  std::size_t param = 0;  ///< In its params.
};

/// A piece of a file's data.
struct Piece {
  int place = 0;           ///< Which file.
  std::int64_t begin = 0;  ///< Bytes from the begin of its data.
  std::int64_t bytes = 0;  ///< How many.
};

/// Elements [first, last) of a state of a parameter.
struct Extent {
  std::string state;       ///< SavedState::name.
  std::string param;       ///< SavedParam::name.
  std::int64_t first = 0;  ///< Of the parameter's elements, or of the part's.
  std::int64_t last = 0;   ///< Behind the last one.
  TensorPart part{};       ///< Of 1: they are the parameter's.
};

/// What some bytes are of.
struct Extents {
  std::vector<Extent> listed;  ///< In the order of the file; only the first of many.
  std::int64_t count = 0;      ///< All of them; 0: the bytes are padding.
};

/// Files that have slices of the same spaces: those of the ranks of a pipeline's stage that have the same part of
/// parameters.
struct FileGroup {
  int first_place = 0;           ///< As in a space.
  int places = 1;                ///< As in a space.
  std::int64_t state_bytes = 0;  ///< Of each file: what states take. Hashes come behind it.
};

/// All states of a checkpoint.
struct ZEROTH_EXPORT Contents {
  int places = 1;                 ///< Files, one for each rank that wrote it.
  int tensor_ranks = 1;           ///< That cut parameters; 1: none did.
  std::vector<Space> spaces;      ///< In the order of the files that have them.
  std::vector<FileGroup> groups;  ///< Ascending; no two have a file in common. Files of none have no states.

  /// Of the file of `place`: what states take.
  [[nodiscard]] std::int64_t state_bytes(int place) const noexcept;
  /// How many stages the pipeline had that wrote it; 1: there was none.
  [[nodiscard]] int stages() const noexcept;
  /// Where every parameter is, by name: in one space, or of one that is cut in as many as there are parts, in order.
  [[nodiscard]] std::unordered_map<std::string, std::vector<Found>> by_name() const;
};

/// Sets the bases of states, and groups, from all else. Of spaces that have files in common all are the same.
ZEROTH_EXPORT void place_states(Contents& contents);
/// Elements [first, first + count) of a state of a space, in order, a piece for each file that has any.
[[nodiscard]] ZEROTH_EXPORT std::vector<Piece> pieces_of(Space const& space, SavedState const& state,
                                                         std::int64_t first, std::int64_t count);

/// What bytes [begin, end) of the data of the file of `place` are of; at most `most` are listed.
[[nodiscard]] ZEROTH_EXPORT Extents extents_at(Contents const& contents, int place, std::int64_t begin,
                                               std::int64_t end, std::size_t most);

/// Bytes that are hashed together, counted from the begin of a file's data: XXH3 of 64 bits, a table of which ends
/// every file.
inline constexpr std::int64_t hashed_bytes = std::int64_t{1} << 20U;
/// Of the file of `place`: how many there are.
[[nodiscard]] ZEROTH_EXPORT std::int64_t hash_count(Contents const& contents, int place) noexcept;
/// "place_00003.safetensors"
[[nodiscard]] ZEROTH_EXPORT std::string file_name(int place);
/// The first bytes of the file of `place`: the length and the header of a safetensors file, up to a multiple of 4096
/// bytes. Every byte of it follows from what is given here.
[[nodiscard]] ZEROTH_EXPORT std::string file_header(Contents const& contents, int place, std::string_view save_id);

}  // namespace zeroth::checkpoint
