// SPDX-License-Identifier: Apache-2.0
/// Detects from outside that a checkpoint was committed.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace zeroth::tools {

/// Identifies a version of a folder's file `latest`, or of a link of that name.
class CheckpointMark {
 public:
  /// Empty without a folder or such a file. Never throws if it cannot be read.
  [[nodiscard]] static CheckpointMark of(std::filesystem::path const& folder);
  /// Whether the file exists, and has another time or content than `before`.
  [[nodiscard]] bool is_newer_than(CheckpointMark const& before) const noexcept;

 private:
  bool exists_ = false;
  std::int64_t written_ns_ = 0;
  std::string content_;
};

}  // namespace zeroth::tools
