// SPDX-License-Identifier: Apache-2.0
/// Log files that the processes of an attempt write to instead of the screen, and their display on the screen.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace zeroth::tools {

/// Creates a folder in `log_dir`: run_1, or the first number that is free, so that the logs of earlier runs stay.
/// Throws ConfigError if it cannot be created.
[[nodiscard]] std::filesystem::path make_run_folder(std::filesystem::path const& log_dir);

/// The logs of one attempt: attempt_1/rank_0.log and so on in the folder of a run, or ranks.log if one process runs or
/// starts all ranks. Ranks write files and never wait for the screen, on which this shows the files.
class RankLogs {
 public:
  /// Without logs.
  RankLogs() = default;
  /// Creates the folder of `attempt`. Throws SystemError.
  RankLogs(std::filesystem::path const& run_folder, int attempt, std::size_t processes, bool tee);
  [[nodiscard]] bool are_there() const noexcept { return !files_.empty(); }
  [[nodiscard]] bool are_followed() const noexcept { return tee_; }
  /// The file of process `place`; empty without logs.
  [[nodiscard]] std::filesystem::path file(std::size_t place) const;
  /// Prints new whole lines on standard output, with the rank before each line, as long as a reader takes them.
  void show();
  /// Prints the rest too, unless the reader takes nothing for two seconds.
  void show_all();
  /// Up to `lines` last lines of process `place`.
  [[nodiscard]] std::string end_of(std::size_t place, int lines) const;

 private:
  struct File {
    std::filesystem::path path;
    std::string label;       // before each line; empty for a single process
    std::int64_t shown = 0;  // bytes
  };
  /// Returns true if something was shown and there may be more.
  bool show_some(File& file, bool ends);

  bool tee_ = false;
  std::vector<File> files_;
};

}  // namespace zeroth::tools
