// SPDX-License-Identifier: Apache-2.0
/// How a checkpoint that all ranks have written gets its name, and how those before it lose theirs.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "zeroth/checkpoint/record.hpp"

namespace zeroth::checkpoint {

/// Which checkpoints stay when one more is there.
struct Retention {
  std::int64_t keep = 0;        ///< The newest; 0: all.
  std::int64_t keep_every = 0;  ///< And those of steps that it divides; 0: no others.
};

/// Makes the folder, and is the one job that writes to it while this lives. Throws SystemError naming who does, if that
/// is another, also one in this process. On file systems without locks it says so, and there is none.
class FolderLock {
 public:
  /// `job` is for those who are refused.
  FolderLock(std::filesystem::path folder, std::string const& job);
  FolderLock(FolderLock const&) = delete;
  FolderLock& operator=(FolderLock const&) = delete;
  ~FolderLock();
  /// True if the lock file in `folder` is the one that is locked. It is not if the folder was removed and made again.
  [[nodiscard]] bool holds(std::filesystem::path const& folder) const;
  /// Removes what jobs that ended in the middle have left, but for what carries `save_id`.
  void clear(std::string const& save_id) const;

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
  bool locked_ = false;
};

/// What files checkpoints have, so that each record is read once, and not at every save.
class KnownFiles {
 public:
  /// Judges by the record and the sizes of the files. A checkpoint that is not whole does not count as one that is
  /// kept.
  [[nodiscard]] bool seem_whole(std::filesystem::path const& checkpoint);
  void note(std::filesystem::path const& checkpoint, Contents const& contents);
  void forget(std::filesystem::path const& checkpoint) { files_.erase(checkpoint); }

 private:
  using Version = std::array<std::int64_t, 4>;  // of the record's file; zeros: there is none
  [[nodiscard]] static Version version_of(std::filesystem::path const& checkpoint) noexcept;
  struct Files {
    Version version{};
    Contents sizes;  // without spaces
  };
  std::map<std::filesystem::path, Files> files_;
};

/// Where the checkpoint of a step is made: no other save has this name.
[[nodiscard]] std::filesystem::path partial_folder(std::filesystem::path const& folder, std::int64_t step,
                                                   std::string const& save_id);
/// Any rank may be the first. Throws SystemError.
void make_partial_folder(std::filesystem::path const& partial);
/// Writes the record beside the files in `partial`, all of which must be there, gives it its name, has `latest` say so,
/// and removes what `retention` does not keep. Every step is on the disk before the next begins. Throws SystemError;
/// the folder is then as it was before. Returns the checkpoint.
std::filesystem::path commit(std::filesystem::path const& folder, std::filesystem::path const& partial,
                             Record const& record, Retention const& retention, KnownFiles& known);
/// Removes the file of `place` after a save that failed, as far as that can be done. Every rank removes its own, since
/// ranks may not see the same folder.
void discard(std::filesystem::path const& partial, int place) noexcept;
/// The same of all files.
void discard(std::filesystem::path const& partial) noexcept;

}  // namespace zeroth::checkpoint
