// SPDX-License-Identifier: Apache-2.0
/// A folder of checkpoints as it must be after what was done to it, and what restore_latest() must make of it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace zeroth::testing {

/// A save that was begun.
struct Attempted {
  std::int64_t step = 0;
  std::string id;  ///< Its program state.
  std::int64_t keep = 0, keep_every = 0;
};

/// How a save ended that may have been none.
enum class End { refused, killed };

struct ExpectedCheckpoint {
  std::string id;
  bool whole = true;        ///< Every byte is as it was written.
  bool seems_whole = true;  ///< Its record can be read, and its files are there and have their sizes.
};

class ExpectedFolder {
 public:
  std::map<std::int64_t, ExpectedCheckpoint> checkpoints;  ///< By step.
  std::optional<std::string> latest;                       ///< What the file of that name says.

  /// Steps, in the order in which they are to be tried.
  [[nodiscard]] std::vector<std::int64_t> order() const;
  /// Where the next run goes on; empty: nowhere, because all are damaged, or because there is nothing.
  [[nodiscard]] std::optional<std::int64_t> restored() const;
  /// There is something, and nothing of it can be used.
  [[nodiscard]] bool all_damaged() const;
  /// A save that ended well. What a run removes is what this forgets.
  void save(Attempted const& attempted);
  /// What is wrong with `folder`, in words; empty: it is as this says.
  [[nodiscard]] std::string difference(std::filesystem::path const& folder) const;
  /// After a save that did not end well: takes over from `folder` what may be so.
  [[nodiscard]] std::string adopt(std::filesystem::path const& folder, Attempted const& attempted, End end);
};

}  // namespace zeroth::testing
