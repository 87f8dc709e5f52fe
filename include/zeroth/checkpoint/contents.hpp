// SPDX-License-Identifier: Apache-2.0
/// The layout of a checkpoint: a closed-form map from elements of states to bytes of files. A reader needs two
/// divisions, and no knowledge of the stage, the buckets, the padding or the number of ranks that wrote it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/model/cut.hpp"

namespace zeroth::checkpoint {

/// The part of a parameter that a space holds, if tensor-parallel ranks divide it.
struct SavedCut {
  Cut cut;          ///< The same in all spaces that hold a part.
  TensorPart part;  ///< The part that this space holds, one of at least two.
};

/// A parameter in a space, or a part of one.
struct ZEROTH_EXPORT SavedParam {
  std::string name;                 ///< Unique in the model.
  std::vector<std::int64_t> shape;  ///< The shape of the whole parameter, outermost extent first.
  std::int64_t count = 0;           ///< Elements in the space, including a part's padding, which is zero.
  std::int64_t at = 0;              ///< Index of its first element in the space.
  std::vector<std::string> ties;    ///< Other units that use it. Informative only.
  std::optional<SavedCut> cut;      ///< Empty if the space holds the whole parameter.

  [[nodiscard]] std::int64_t whole_count() const noexcept;  ///< Elements of the whole parameter, without padding.
  /// Maps elements in the space to elements of the whole parameter.
  [[nodiscard]] model::CutPart part() const;
  /// Index of the part that the space holds, from 0; 0 if it holds the whole parameter.
  [[nodiscard]] int index() const noexcept { return cut ? cut->part.index : 0; }
  /// True for exactly one of the spaces that hold a parameter, so that each parameter is reported once.
  [[nodiscard]] bool comes_first() const noexcept { return index() == 0; }
};

/// A state: one number for each element of a space.
struct SavedState {
  std::string name;           ///< "master", an optimizer state as PyTorch names it ("exp_avg"), or "frozen".
  Dtype dtype = Dtype::fp32;  ///< fp32, bf16 or fp16.
  std::int64_t base = 0;      ///< Byte offset in the data of each file that holds a slice.
};

/// The trainable or the frozen parameters of a unit, concatenated and divided into one slice for each of `places`
/// files: those of the ranks that had the unit. Element e of a parameter is element `g = at + e` of the space, which is
/// element `g % slice_count` in file `first_place + g / slice_count`. Padding is zero. Each tensor-parallel rank has
/// its own spaces. The first of these ranks' spaces also hold the parameters that are not divided.
struct Space {
  std::string unit;                ///< Informative only.
  bool trainable = true;           ///< If false, its only state is "frozen".
  bool of_each_rank = false;       ///< Whether each slice is independent of the others; `at` then counts from its
                                   ///< start.
  int first_place = 0;             ///< The first file that has a slice.
  int places = 1;                  ///< Number of consecutive files that have a slice.
  std::int64_t slice_count = 0;    ///< Elements per slice.
  std::vector<SavedParam> params;  ///< Ascending by `at`.
  std::vector<SavedState> states;  ///< In file order.
};

/// The position of a parameter, or of a part of one.
struct Found {
  std::size_t space = 0;  ///< Index in Contents::spaces.
  std::size_t param = 0;  ///< Index in Space::params.
};

/// A range of bytes in a file's data.
struct Piece {
  int place = 0;           ///< The file's index.
  std::int64_t begin = 0;  ///< Byte offset in the file's data.
  std::int64_t bytes = 0;  ///< Length in bytes.
};

/// Elements [first, last) of one state of a parameter, or bytes [first, last) of a rank's own.
struct Extent {
  std::string state;       ///< SavedState::name, or "rank_state".
  std::string param;       ///< SavedParam::name; empty for a rank's own bytes.
  std::int64_t first = 0;  ///< Index in the parameter, or in its part.
  std::int64_t last = 0;   ///< One past the last element.
  TensorPart part{};       ///< One part of 1 means the whole parameter.
};

/// The content of a range of bytes.
struct Extents {
  std::vector<Extent> listed;  ///< In file order. Only the first ones, if there are many.
  std::int64_t count = 0;      ///< The number of all extents; 0 if the bytes are padding.
};

/// Files with slices of the same spaces: those of the ranks of one pipeline stage that have the same part of
/// parameters.
struct FileGroup {
  int first_place = 0;           ///< See Space::first_place.
  int places = 1;                ///< See Space::places.
  std::int64_t state_bytes = 0;  ///< Bytes of states in each file.
};

/// How many ranks wrote a checkpoint: the product of these, with a file each.
struct SavedRanks {
  int data = 1;    ///< Data-parallel ranks.
  int tensor = 1;  ///< Tensor-parallel ranks.
  int stages = 1;  ///< Stages of a pipeline.
};

/// Where parameters are, by name. Its names are those of the spaces that it was made of, which must outlive it
/// unchanged. Memory: a few allocations, whatever the number of parameters.
class ZEROTH_EXPORT FoundByName {
 public:
  /// A parameter.
  struct Entry {
    std::string_view name;         ///< SavedParam::name.
    std::span<Found const> parts;  ///< One position, or one for each part, in order.
  };
  /// No parameters.
  FoundByName() = default;
  FoundByName(FoundByName&&) noexcept = default;
  FoundByName& operator=(FoundByName&&) noexcept = default;
  FoundByName(FoundByName const&) = delete;
  FoundByName& operator=(FoundByName const&) = delete;
  ~FoundByName() = default;
  /// All parameters in `spaces`.
  explicit FoundByName(std::span<Space const> spaces);
  /// The positions of the parameter `name`; empty if there is none. Cost: a hash and a comparison.
  [[nodiscard]] std::span<Found const> find(std::string_view name) const noexcept;
  /// Number of parameters.
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// The parameters, in the order in which the spaces first have them.
  [[nodiscard]] std::vector<Entry>::const_iterator begin() const noexcept { return entries_.begin(); }
  /// Their end.
  [[nodiscard]] std::vector<Entry>::const_iterator end() const noexcept { return entries_.end(); }

 private:
  /// The slot that has `name`, or the empty one where it would be.
  [[nodiscard]] std::size_t slot_of(std::string_view name, std::size_t hash) const noexcept;

  std::vector<Entry> entries_;
  std::vector<Found> positions_;      // those of each entry are adjacent
  std::vector<std::uint32_t> slots_;  // an index in entries_ plus 1; 0: empty. As many as a power of two.
  std::vector<std::size_t> hashes_;   // of each entry
};

/// All states of a checkpoint.
struct ZEROTH_EXPORT Contents {
  int places = 1;             ///< Number of files, one for each rank that wrote it.
  int tensor_ranks = 1;       ///< Number of tensor-parallel ranks that divided parameters; 1 if none did.
  std::vector<Space> spaces;  ///< In the order of their files.
  /// Errors of encoding: of each rank's gradients or first moments, and with 1-bit Adam of slices of their sums. Empty
  /// unless signs are sent. Their only state is "error". In a file they come before the states of `spaces`.
  std::vector<Space> errors;
  std::vector<FileGroup> groups;  ///< Ascending and disjoint. Files in no group have no states.
  /// Bytes of SaveOptions::rank_state in each file, after the states; empty if the save had none.
  std::vector<std::int64_t> rank_states;

  /// Bytes of states in file `place`.
  [[nodiscard]] std::int64_t state_bytes(int place) const noexcept;
  /// Bytes of data in file `place`: of states, and of the rank's own. Hashes follow them.
  [[nodiscard]] std::int64_t data_bytes(int place) const noexcept;
  /// Number of stages of the pipeline that wrote it; 1 without a pipeline.
  [[nodiscard]] int stages() const noexcept;
  /// The ranks that wrote it. Files are numbered by stage, then by tensor rank, then by data rank.
  [[nodiscard]] SavedRanks ranks() const noexcept;
  /// All parameters in `spaces` by name. `spaces` must outlive the result unchanged.
  [[nodiscard]] FoundByName by_name() const { return FoundByName{spaces}; }
};

/// Sets the base offsets of all states, and `groups`, from the other members. Spaces with a file in common must have
/// the same files.
ZEROTH_EXPORT void place_states(Contents& contents);
/// Locates elements [first, first + count) of a state, in order, with one piece for each file that holds any.
[[nodiscard]] ZEROTH_EXPORT std::vector<Piece> pieces_of(Space const& space, SavedState const& state,
                                                         std::int64_t first, std::int64_t count);

/// The content of bytes [begin, end) of the data of file `place`. Lists at most `most` extents.
[[nodiscard]] ZEROTH_EXPORT Extents extents_at(Contents const& contents, int place, std::int64_t begin,
                                               std::int64_t end, std::size_t most);

/// Bytes per hash, counted from the beginning of a file's data. Hashes are 64-bit XXH3; each file ends with a table of
/// them.
inline constexpr std::int64_t hashed_bytes = std::int64_t{1} << 20U;
/// Number of hashes in file `place`.
[[nodiscard]] ZEROTH_EXPORT std::int64_t hash_count(Contents const& contents, int place) noexcept;
/// The file's name: "place_00003.safetensors".
[[nodiscard]] ZEROTH_EXPORT std::string file_name(int place);
/// The first bytes of file `place`: the length and header of a safetensors file, padded to a multiple of 4096 bytes.
/// The arguments determine every byte.
[[nodiscard]] ZEROTH_EXPORT std::string file_header(Contents const& contents, int place, std::string_view save_id);

}  // namespace zeroth::checkpoint
