// SPDX-License-Identifier: Apache-2.0
/// Folders that are there as a whole or not at all.
#pragma once
#include <filesystem>

namespace zeroth::tools {

/// A new folder in the making, beside its place under a name that nobody can guess. Everything throws SystemError, with
/// its path and the reason.
class WholeFolder {
 public:
  /// `path` is to be nothing yet, or an empty folder.
  explicit WholeFolder(std::filesystem::path path);
  WholeFolder(WholeFolder const&) = delete;
  WholeFolder& operator=(WholeFolder const&) = delete;
  ~WholeFolder();  ///< Removes what was not published.
  /// Where its files are to be written.
  [[nodiscard]] std::filesystem::path const& partial() const noexcept { return partial_; }
  /// To its name, once files are on the disk. The last call.
  void publish();

 private:
  std::filesystem::path path_, target_, partial_;
};

}  // namespace zeroth::tools
