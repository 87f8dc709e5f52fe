// SPDX-License-Identifier: Apache-2.0
/// Whether a checkpoint was committed, seen from outside.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace zeroth::tools {

/// What tells one state of a folder's file `latest`, or link of that name, from another.
class CheckpointMark {
 public:
  /// Of no folder, or where there is no such file: none. Never throws for what cannot be read.
  [[nodiscard]] static CheckpointMark of(std::filesystem::path const& folder);
  /// There is one, and it was written since, or says something else.
  [[nodiscard]] bool is_newer_than(CheckpointMark const& before) const noexcept;

 private:
  bool exists_ = false;
  std::int64_t written_ns_ = 0;
  std::string content_;
};

}  // namespace zeroth::tools
