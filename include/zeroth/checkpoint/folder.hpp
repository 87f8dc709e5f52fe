// SPDX-License-Identifier: Apache-2.0
/// A folder of checkpoints: DIR/step_00001000 for each, and DIR/latest, which names the one saved last. A checkpoint
/// gets its name only once all of it is on disk.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth::checkpoint {

/// The file that names the checkpoint saved last.
inline constexpr char const* latest_name = "latest";

/// Suffix of a checkpoint that is being written, or of one that an interrupted run has left.
inline constexpr std::string_view partial_suffix = ".partial";
/// Suffix of a checkpoint that is being removed.
inline constexpr std::string_view leaving_suffix = ".deleting";

/// The folder name of a step's checkpoint: "step_00001000".
[[nodiscard]] ZEROTH_EXPORT std::string checkpoint_name(std::int64_t step);
/// The step in a checkpoint's name; nullopt for any other name.
[[nodiscard]] ZEROTH_EXPORT std::optional<std::int64_t> step_of(std::string const& name);

/// The contents of `latest` in `folder`, whether or not that checkpoint exists. nullopt if there is no such file; an
/// empty string if it is not a file, but a folder, say. Throws SystemError if it cannot be read.
[[nodiscard]] ZEROTH_EXPORT std::optional<std::string> latest_in(std::filesystem::path const& folder);
/// All folders in `folder` with the name of a checkpoint, intact or damaged, in the order in which to try them: the one
/// that `latest` names, then earlier ones, newest first, then later ones, which an earlier run left. Empty if `folder`
/// does not exist. Throws SystemError if it cannot be read.
[[nodiscard]] ZEROTH_EXPORT std::vector<std::filesystem::path> newest_first(std::filesystem::path const& folder);
/// Returns `path` itself if it is a checkpoint, or the checkpoint that `path`/latest names. Throws DamagedError if
/// there is neither, and SystemError if `path` cannot be read.
[[nodiscard]] ZEROTH_EXPORT std::filesystem::path find_checkpoint(std::filesystem::path const& path);

}  // namespace zeroth::checkpoint
