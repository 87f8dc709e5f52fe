// SPDX-License-Identifier: Apache-2.0
/// Reads the states of a checkpoint piece by piece, and checks the hash of everything that it reads.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/checkpoint/record.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/tool/core/input_file.hpp"

namespace zeroth::checkpoint {

/// Receives `bytes` of requested piece `index`, starting at byte `offset` of that piece. `bytes` is valid during the
/// call only. Calls come in the order of files and of bytes in them.
using TakeBytes = std::function<void(std::size_t index, std::int64_t offset, std::span<std::byte const> bytes)>;

/// A defect of a checkpoint's file.
struct Damage {
  std::string why;  ///< "is damaged: its hash is another one", "cannot be opened: No such file or directory", ...
  std::int64_t begin = 0;  ///< First affected byte of the file.
  std::int64_t end = 0;    ///< One past the last affected byte; 0 if the whole file is affected.
  Extents extents;         ///< The content of these bytes.
};

class SavedHashes;
class UseLock;

/// Reads one checkpoint. Throws DamagedError, naming file, state, parameter and elements, if the checkpoint is damaged,
/// and SystemError if the system could not read it. No save removes the checkpoint while the Reader exists. Needs 8 MiB
/// of memory for files of any size. During long reads a background thread reads ahead. Use it on one thread at a time.
class ZEROTH_EXPORT Reader {
 public:
  /// Reads the record of the checkpoint in `folder`. `direct`: bypass the system's file cache if possible. `buffer`:
  /// buffer_bytes of memory, aligned to 4096 bytes, to read into; if empty, the Reader allocates its own.
  explicit Reader(std::filesystem::path folder, bool direct = true, std::span<std::byte> buffer = {});
  static constexpr std::int64_t buffer_bytes = 8 * hashed_bytes;  ///< Size of the buffer.
  Reader(Reader const&) = delete;
  Reader& operator=(Reader const&) = delete;
  ~Reader();

  /// The folder passed to the constructor.
  [[nodiscard]] std::filesystem::path const& folder() const noexcept { return folder_; }
  [[nodiscard]] Record const& record() const noexcept { return record_; }  ///< The checkpoint's record.
  /// Checks that file `place` exists, has the right size and belongs to this checkpoint.
  void check_file(int place);
  /// Reads `pieces`, in any order. Reads every MiB that they touch once, if the pieces in it are adjacent in the list.
  void read(std::span<Piece const> pieces, TakeBytes const& take);
  /// Reads elements [first, first + to.size() / element size) of a whole parameter, however tensor-parallel ranks
  /// divided it. `parts` comes from Contents::by_name(); `state` is an index into Space::states, the same for all
  /// `parts`. Successive calls for small parameters, in file order, do not read a MiB twice.
  void read(std::span<Found const> parts, std::size_t state, std::int64_t first, std::span<std::byte> to);
  /// Reads the bytes that the rank of file `place` passed as SaveOptions::rank_state; empty if it passed none.
  [[nodiscard]] std::vector<std::byte> rank_state(int place);
  /// Returns all defects of file `place`; empty if every byte is as it was written. Reads the whole file if
  /// `with_data`, and otherwise only what check_file() reads. Does not throw if the file is damaged. Calls `on_read`
  /// repeatedly with the number of bytes checked since its last call.
  [[nodiscard]] std::vector<Damage> damage(int place, bool with_data,
                                           std::function<void(std::int64_t bytes)> const& on_read = {});
  static constexpr std::size_t most_extents = 1000;  ///< Limit on the extents listed in a Damage.

 private:
  /// The result of checking a file.
  struct Checked {
    std::int64_t data_begin = 0;
    std::string wrong;  // with its header
  };
  /// The hashes of one buffer of bytes.
  using Hashes = std::array<std::uint64_t, buffer_bytes / hashed_bytes>;
  // Functions that throw Unreadable leave it to the caller to name the file.
  [[nodiscard]] Checked const& checked(int place);
  [[nodiscard]] Checked look(int place);
  [[nodiscard]] InputFile const& open(int place);
  void read_bytes(int place, Checked const& file, std::int64_t begin, std::int64_t end, std::byte* to, Hashes& saved);
  [[nodiscard]] static std::vector<std::int64_t> damaged_in(Hashes const& saved, std::int64_t begin, std::int64_t end,
                                                            std::byte const* bytes);
  void expect_undamaged(int place, Hashes const& saved, std::int64_t begin, std::int64_t end,
                        std::byte const* bytes) const;
  void add_damage_of_data(int place, Checked const& file, std::vector<Damage>& all,
                          std::function<void(std::int64_t bytes)> const& on_read);
  void read_checked(int place, std::int64_t begin, std::int64_t end);
  void read_parts(std::span<Piece const> parts, std::function<void(Piece const&, std::byte const*)> const& take);
  [[nodiscard]] std::string what_is_at(int place, std::int64_t begin, std::int64_t end) const;
  [[nodiscard]] std::string message(int place, std::string_view why) const;

  std::filesystem::path folder_;
  std::unique_ptr<UseLock> lock_;  // before anything is read
  bool direct_;
  Record record_;
  std::map<int, Checked> checked_;
  int open_place_ = -1;
  std::unique_ptr<InputFile> open_;
  std::unique_ptr<std::byte, void (*)(std::byte*)> own_buffer_;
  std::byte* buffer_;
  std::unique_ptr<SavedHashes> saved_hashes_;
  Piece buffered_{-1, 0, 0};  // what is in it, with good hashes
};

}  // namespace zeroth::checkpoint
