/// Files that are there as a whole or not at all.
#pragma once
#include <filesystem>
#include <string_view>

namespace zeroth {

/// Writes `text` beside `path` and renames that, so that nobody ever reads half of it, nor loses what was there before.
/// Throws SystemError with `what` the file is, its path and the reason, and leaves nothing behind. For one thread of a
/// process at a time, and any number of processes.
void write_whole_file(std::string_view what, std::filesystem::path const& path, std::string_view text);

}  // namespace zeroth
