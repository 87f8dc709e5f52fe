// SPDX-License-Identifier: Apache-2.0
/// Creates folders atomically.
#pragma once
#include <filesystem>

namespace zeroth::tools {

/// A new folder under construction, next to its target under an unpredictable name. All calls throw SystemError, with
/// the path and the reason.
class WholeFolder {
 public:
  /// `path` must not exist, or be an empty folder.
  explicit WholeFolder(std::filesystem::path path);
  WholeFolder(WholeFolder const&) = delete;
  WholeFolder& operator=(WholeFolder const&) = delete;
  ~WholeFolder();  ///< Removes the folder unless it was published.
  /// The place to write its files to.
  [[nodiscard]] std::filesystem::path const& partial() const noexcept { return partial_; }
  /// Renames it to its target once its files are on the disk. The last call.
  void publish();

 private:
  std::filesystem::path path_, target_, partial_;
};

}  // namespace zeroth::tools
