// SPDX-License-Identifier: Apache-2.0
/// Commits a checkpoint that all ranks have written, and removes older ones.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "zeroth/checkpoint/record.hpp"
#include "zeroth/tool/checkpoint/removal.hpp"

namespace zeroth::checkpoint {

/// Creates the folder and locks it against other jobs while it lives. Throws SystemError, which names the owner, if
/// another job holds the lock, even one in this process. On file systems without locks it logs a warning and does not
/// lock.
class FolderLock {
 public:
  /// `job` appears in the errors of rejected jobs.
  FolderLock(std::filesystem::path folder, std::string const& job);
  FolderLock(FolderLock const&) = delete;
  FolderLock& operator=(FolderLock const&) = delete;
  ~FolderLock();
  /// Whether the lock file in `folder` is the one that is locked. It is not if the folder was removed and made again.
  [[nodiscard]] bool holds(std::filesystem::path const& folder) const;
  /// Removes the leftovers of aborted jobs, except files with `save_id`.
  void clear(std::string const& save_id) const;

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
  bool locked_ = false;
};

/// Caches the file sizes of checkpoints, so that their records are not read again at every save.
class KnownFiles {
 public:
  /// Whether the record can be read and no file is smaller than it says. Incomplete checkpoints do not count as kept
  /// ones.
  [[nodiscard]] bool seem_whole(std::filesystem::path const& checkpoint);
  void note(std::filesystem::path const& checkpoint, Contents const& contents);
  void forget(std::filesystem::path const& checkpoint) { files_.erase(checkpoint); }

 private:
  using Version = std::array<std::int64_t, 4>;  // of the record's file; zeros: no file
  [[nodiscard]] static Version version_of(std::filesystem::path const& checkpoint) noexcept;
  struct Files {
    Version version{};
    Contents sizes;  // without spaces
  };
  std::map<std::filesystem::path, Files> files_;
};

/// The leftovers of aborted jobs in `folder`: partial checkpoints, and those that were being removed.
[[nodiscard]] std::vector<std::filesystem::path> leftovers_in(std::filesystem::path const& folder);
/// The checkpoints in `folder` up to step `newest` that `retention` does not keep, newest first.
[[nodiscard]] std::vector<std::filesystem::path> unneeded_in(std::filesystem::path const& folder, std::int64_t newest,
                                                             Retention const& retention, KnownFiles& known);

/// The folder in which the checkpoint of a step is written; the name is unique to the save.
[[nodiscard]] std::filesystem::path partial_folder(std::filesystem::path const& folder, std::int64_t step,
                                                   std::string const& save_id);
/// Any rank may call it first. Throws SystemError.
void make_partial_folder(std::filesystem::path const& partial);
/// Bytes of each file's rank state, from the files' sizes: a save is not collective, so ranks have not exchanged them.
/// Throws SystemError.
[[nodiscard]] std::vector<std::int64_t> rank_states_in(std::filesystem::path const& partial, Contents const& contents);
/// Commits the files in `partial`, all of which must exist: writes the record, renames the folder, points `latest` to
/// it, and removes the checkpoints that `retention` does not keep. Each of these is on the disk before the next begins.
/// On failure throws SystemError and restores the folder. Returns the checkpoint.
std::filesystem::path commit(std::filesystem::path const& folder, std::filesystem::path const& partial,
                             Record const& record, Retention const& retention, KnownFiles& known);
/// Removes the file of `place` after a failed save, as far as possible. Every rank removes its own file, since ranks
/// may not see the same folder.
void discard(std::filesystem::path const& partial, int place) noexcept;
/// Removes `partial` with all files.
void discard(std::filesystem::path const& partial) noexcept;

}  // namespace zeroth::checkpoint
