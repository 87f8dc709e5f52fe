// SPDX-License-Identifier: Apache-2.0
/// A file that grows while others read it.
#pragma once
#include <filesystem>
#include <string_view>

namespace zeroth::monitor {

/// Creates the folder and returns it. Throws SystemError, which names the folder.
[[nodiscard]] std::filesystem::path made_folder(std::filesystem::path folder);

/// Seconds since 1970.
[[nodiscard]] double wall_seconds();

/// All calls throw SystemError, which names the file.
class AppendingFile {
 public:
  explicit AppendingFile(std::filesystem::path path);  ///< Opens or creates the file.
  AppendingFile(AppendingFile const&) = delete;
  AppendingFile& operator=(AppendingFile const&) = delete;
  ~AppendingFile();
  [[nodiscard]] bool was_empty() const noexcept { return was_empty_; }  ///< At opening.
  void write(std::string_view bytes);                                   ///< The system has the bytes when this returns.

 private:
  [[noreturn]] void refuse(int error) const;
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool was_empty_ = true;
};

}  // namespace zeroth::monitor
