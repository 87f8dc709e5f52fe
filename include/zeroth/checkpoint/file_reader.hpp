// SPDX-License-Identifier: Apache-2.0
/// The states of a checkpoint, read piece by piece, and never without a look at their hashes.
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

/// Bytes `bytes` of piece `index` of those that were asked for, from byte `offset` of it on: gone when the call
/// returns. Calls come in the order of files and of bytes in them.
using TakeBytes = std::function<void(std::size_t index, std::int64_t offset, std::span<std::byte const> bytes)>;

/// Something that is wrong with the file of a place.
struct Damage {
  std::string why;  ///< "is damaged: its hash is another one", "cannot be opened: No such file or directory", ...
  std::int64_t begin = 0;  ///< Of the file's bytes that it is about.
  std::int64_t end = 0;    ///< Behind the last one; 0: it is about the file as a whole.
  Extents extents;         ///< What these bytes are of.
};

class SavedHashes;
class UseLock;

/// One checkpoint. Throws DamagedError naming file, state, parameter and elements, whatever is wrong with it, and
/// SystemError where the system could not read it. While it lives, no save removes the checkpoint. Takes 8
/// MiB of memory, whatever size files are; while it reads much, a thread of its own is ahead of what the caller does
/// with the bytes. For one thread at a time.
class ZEROTH_EXPORT Reader {
 public:
  /// Reads the record of the checkpoint in `folder`. `direct`: files are read past the system's cache, where that can
  /// be.
  /// `buffer`: memory of buffer_bytes that is aligned to 4096, for bytes on their way; otherwise it has its own.
  explicit Reader(std::filesystem::path folder, bool direct = true, std::span<std::byte> buffer = {});
  static constexpr std::int64_t buffer_bytes = 8 * hashed_bytes;  ///< As above.
  Reader(Reader const&) = delete;
  Reader& operator=(Reader const&) = delete;
  ~Reader();

  [[nodiscard]] std::filesystem::path const& folder() const noexcept { return folder_; }  ///< As it was made.
  [[nodiscard]] Record const& record() const noexcept { return record_; }                 ///< That of the checkpoint.
  /// That of `place`: is it there, of its size, and of this checkpoint?
  void check_file(int place);
  /// Reads `pieces`, in any order, and every MiB that they touch once, if they come together.
  void read(std::span<Piece const> pieces, TakeBytes const& take);
  /// Elements [first, first + to.size() / size of one) of a whole parameter, however tensor ranks have cut it: of state
  /// `state` in Space::states, which is the same for all `parts` (Contents::by_name() of the record). One call behind
  /// another, for small parameters in the order of the file, does not read what the one before has read.
  void read(std::vector<Found> const& parts, std::size_t state, std::int64_t first, std::span<std::byte> to);
  /// All that is wrong with the file of `place`: nothing if every byte is as it was written. Reads all of it if
  /// `with_data`, and otherwise no more than check_file(). Throws nothing for what the file is. `on_read` is told how
  /// many bytes more were looked at, each time that some were.
  [[nodiscard]] std::vector<Damage> damage(int place, bool with_data,
                                           std::function<void(std::int64_t bytes)> const& on_read = {});
  static constexpr std::size_t most_extents = 1000;  ///< That are listed of a Damage.

 private:
  /// What is known of a file once it was looked at.
  struct Checked {
    std::int64_t data_begin = 0;
    std::string wrong;  // with its header
  };
  /// Of as many bytes as are read at once.
  using Hashes = std::array<std::uint64_t, buffer_bytes / hashed_bytes>;
  // Those that throw Unreadable leave it to others to say of which file.
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
