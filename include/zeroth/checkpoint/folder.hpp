// SPDX-License-Identifier: Apache-2.0
/// A folder of checkpoints: DIR/step_00001000 for each, and DIR/latest, which names the one that was saved last. A
/// checkpoint has its name only once all of it is on the disk.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth::checkpoint {

/// The file that names the checkpoint that was saved last.
inline constexpr char const* latest_name = "latest";

/// What ends the name of a checkpoint that is being written, or was left behind by a run that ended.
inline constexpr std::string_view partial_suffix = ".partial";
/// The same of one that is being removed.
inline constexpr std::string_view leaving_suffix = ".deleting";

/// "step_00001000"
[[nodiscard]] ZEROTH_EXPORT std::string checkpoint_name(std::int64_t step);
/// The step that a checkpoint's name says; nothing for any other name.
[[nodiscard]] ZEROTH_EXPORT std::optional<std::int64_t> step_of(std::string const& name);

/// What `latest` in `folder` says, whether that is there or not; nothing where there is no such file, and no name
/// where it is none, say, a folder. Throws SystemError for one that cannot be read.
[[nodiscard]] ZEROTH_EXPORT std::optional<std::string> latest_in(std::filesystem::path const& folder);
/// All folders in `folder` that have the name of a checkpoint, whole or damaged, to be tried in this order: the one
/// that `latest` names, those before it, the newest first, and those behind it, which an earlier run has left. None
/// where there is no such folder. Throws SystemError for one that cannot be read.
[[nodiscard]] ZEROTH_EXPORT std::vector<std::filesystem::path> newest_first(std::filesystem::path const& folder);
/// `path` itself, if it is a checkpoint; the one that `latest` in it names, if it is a folder of them. Throws
/// DamagedError where there is neither, SystemError where that cannot be looked at.
[[nodiscard]] ZEROTH_EXPORT std::filesystem::path find_checkpoint(std::filesystem::path const& path);

}  // namespace zeroth::checkpoint
