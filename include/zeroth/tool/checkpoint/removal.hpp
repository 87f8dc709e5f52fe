// SPDX-License-Identifier: Apache-2.0
/// Removes checkpoints between jobs, as saves do while they run.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth::checkpoint {

/// The checkpoints to keep.
struct Retention {
  std::int64_t keep = 0;        ///< Number of newest checkpoints; 0 keeps all.
  std::int64_t keep_every = 0;  ///< Also keeps steps that are multiples of this; 0 disables.
  /// Also keeps checkpoints that were saved less than this long ago, by the time of last change of their
  /// checkpoint.json.
  std::chrono::seconds keep_for{0};
};

/// Removes a checkpoint with all its files. It is renamed first, so that no reader sees a part of it. Returns false,
/// and changes nothing, if another process or thread reads it. Throws SystemError if it cannot be removed.
[[nodiscard]] ZEROTH_EXPORT bool remove_checkpoint(std::filesystem::path const& checkpoint);

/// Checkpoints that remove_unneeded() removes in addition to leftovers of aborted jobs.
struct RemovalOptions {
  Retention retention;
  bool dry_run = false;  ///< Removes nothing. The folder is not locked, so a job may save in it.
};

struct Removal {
  std::vector<std::filesystem::path> removed;  ///< With `dry_run` what would be removed. Leftovers come first.
  std::vector<std::filesystem::path> in_use;   ///< Checkpoints that stay because they are being read.
};

/// Removes from `folder` the leftovers of aborted jobs, and the checkpoints that `options` do not keep: as a save does,
/// it counts only checkpoints that seem whole, and leaves those of later steps than the one that `latest` names. Throws
/// SystemError if a job saves in `folder`, which it names, or if a checkpoint cannot be removed.
[[nodiscard]] ZEROTH_EXPORT Removal remove_unneeded(std::filesystem::path const& folder, RemovalOptions const& options);

}  // namespace zeroth::checkpoint
