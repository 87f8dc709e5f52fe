// SPDX-License-Identifier: Apache-2.0
/// Files that an attempt's processes write to in place of the screen, and the screen that follows them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace zeroth::tools {

/// A new folder in `log_dir`, run_1 or the first number that is free: what earlier runs wrote stays. Throws ConfigError
/// where it cannot be made.
[[nodiscard]] std::filesystem::path make_run_folder(std::filesystem::path const& log_dir);

/// Of one attempt: attempt_1/rank_0.log and so on in the folder of a run, or ranks.log where all ranks are in one
/// process, or below one. Ranks write files and never wait for the screen, which is shown what is in them.
class RankLogs {
 public:
  /// There are none.
  RankLogs() = default;
  /// Makes the folder of `attempt`. Throws SystemError.
  RankLogs(std::filesystem::path const& run_folder, int attempt, std::size_t processes, bool tee);
  [[nodiscard]] bool are_there() const noexcept { return !files_.empty(); }
  [[nodiscard]] bool are_followed() const noexcept { return tee_; }
  /// Of process `place`; empty where there are none.
  [[nodiscard]] std::filesystem::path file(std::size_t place) const;
  /// On standard output, with the rank before each line, what has come since: whole lines, as long as somebody reads.
  void show();
  /// And the rest, unless nobody reads for two seconds.
  void show_all();
  /// The last lines of process `place`, up to `lines`.
  [[nodiscard]] std::string end_of(std::size_t place, int lines) const;

 private:
  struct File {
    std::filesystem::path path;
    std::string label;       // before each line; empty where there is one process
    std::int64_t shown = 0;  // bytes
  };
  /// True if something was shown, and more may come.
  bool show_some(File& file, bool ends);

  bool tee_ = false;
  std::vector<File> files_;
};

}  // namespace zeroth::tools
