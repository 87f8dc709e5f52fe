// SPDX-License-Identifier: Apache-2.0
/// The expected state of a folder of checkpoints after some operations, and the expected result of restore_latest().
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace zeroth::testing {

/// A save that was started.
struct Attempted {
  std::int64_t step = 0;
  std::string id;  ///< Its program state, which identifies it.
  std::int64_t keep = 0, keep_every = 0;
};

/// How an incomplete save ended.
enum class End { refused, killed };

struct ExpectedCheckpoint {
  std::string id;
  bool whole = true;        ///< Every byte is as written.
  bool seems_whole = true;  ///< Its record can be read, and its files exist with their sizes.
};

class ExpectedFolder {
 public:
  std::map<std::int64_t, ExpectedCheckpoint> checkpoints;  ///< By step.
  std::optional<std::string> latest;                       ///< The content of the file `latest`.

  /// Steps, in the order in which to try them.
  [[nodiscard]] std::vector<std::int64_t> order() const;
  /// The step that the next run resumes from; nullopt if there are no checkpoints, or all are damaged.
  [[nodiscard]] std::optional<std::int64_t> restored() const;
  /// Whether checkpoints exist but none can be used.
  [[nodiscard]] bool all_damaged() const;
  /// Records a successful save. Drops the checkpoints that the save removes.
  void save(Attempted const& attempted);
  /// Describes how `folder` differs; empty if it is as expected.
  [[nodiscard]] std::string difference(std::filesystem::path const& folder) const;
  /// Call after a save that did not succeed: adopts the state of `folder` if it is allowed. Otherwise describes the
  /// difference.
  [[nodiscard]] std::string adopt(std::filesystem::path const& folder, Attempted const& attempted, End end);
};

}  // namespace zeroth::testing
