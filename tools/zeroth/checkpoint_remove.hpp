// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint remove` and `zeroth checkpoint gc`.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <zeroth/tool/checkpoint/removal.hpp>

namespace zeroth::tools {

struct RemovedCheckpoint {
  std::filesystem::path path;
  std::int64_t bytes = 0;  ///< Size of its files.
};

struct Removed {
  bool dry_run = false;  ///< Nothing was removed: `removed` is what would be.
  std::vector<RemovedCheckpoint> removed;
  std::vector<std::filesystem::path> in_use;  ///< They stay because they are being read.
};

/// Checks all `checkpoints`, then removes each. Throws SystemError, and removes nothing, if one does not have a
/// checkpoint's name, does not exist, or is the one that `latest` in its folder names.
[[nodiscard]] Removed remove(std::vector<std::filesystem::path> const& checkpoints);
/// Removes unneeded checkpoints and leftovers from a folder. Throws SystemError as checkpoint::remove_unneeded() does,
/// and if `folder` contains nothing that belongs to checkpoints.
[[nodiscard]] Removed collect_garbage(std::filesystem::path const& folder, checkpoint::RemovalOptions const& options);

[[nodiscard]] std::string as_text(Removed const& removed);
[[nodiscard]] std::string as_json(Removed const& removed);

}  // namespace zeroth::tools
