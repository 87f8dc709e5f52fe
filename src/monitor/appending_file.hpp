// SPDX-License-Identifier: Apache-2.0
/// A file that grows while others read it.
#pragma once
#include <filesystem>
#include <string_view>

namespace zeroth::monitor {

/// Makes the folder. Throws SystemError naming it.
[[nodiscard]] std::filesystem::path made_folder(std::filesystem::path folder);

/// Since 1970.
[[nodiscard]] double wall_seconds();

/// Everything throws SystemError naming the file.
class AppendingFile {
 public:
  explicit AppendingFile(std::filesystem::path path);  ///< Opens it, or makes it.
  AppendingFile(AppendingFile const&) = delete;
  AppendingFile& operator=(AppendingFile const&) = delete;
  ~AppendingFile();
  [[nodiscard]] bool was_empty() const noexcept { return was_empty_; }  ///< When it was opened.
  void write(std::string_view bytes);                                   ///< Handed to the system when this returns.

 private:
  [[noreturn]] void refuse(int error) const;
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool was_empty_ = true;
};

}  // namespace zeroth::monitor
