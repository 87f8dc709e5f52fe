// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint inspect` of a folder of checkpoints.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint_facts.hpp"
#include "paper.hpp"

namespace zeroth::tools {

enum class Condition : std::uint8_t {
  complete,  ///< As far as can be seen without reading all of it.
  damaged,
  partial,   ///< Being written, or left behind by a run that ended.
  deleting,  ///< Being removed, or left behind by a run that ended.
};
[[nodiscard]] std::string_view name_of(Condition condition) noexcept;

struct ListedCheckpoint {
  std::string name;
  Condition condition = Condition::complete;
  std::optional<CheckpointFacts> facts;  ///< Where there is a record.
  std::int64_t bytes = 0;                ///< Of its files of states; of one without a record, of all its files.
  std::string why;                       ///< It is damaged.
};

struct CheckpointList {
  std::filesystem::path path;
  std::optional<std::string> latest;          ///< What the file of this name says; whether that is there or not.
  std::vector<ListedCheckpoint> checkpoints;  ///< By name.
};

/// Throws SystemError if it is no folder, or has nothing of checkpoints in it.
[[nodiscard]] CheckpointList list(std::filesystem::path const& folder);
[[nodiscard]] std::string as_text(CheckpointList const& list, Paper const& paper = {});
[[nodiscard]] std::string as_json(CheckpointList const& list);

}  // namespace zeroth::tools
