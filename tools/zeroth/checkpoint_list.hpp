// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint inspect` for a folder of checkpoints.
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
  complete,  ///< Judged without reading all of it.
  damaged,
  partial,   ///< Being written, or a leftover of an aborted run.
  deleting,  ///< Being removed, or a leftover of an aborted run.
};
[[nodiscard]] std::string_view name_of(Condition condition) noexcept;

struct ListedCheckpoint {
  std::string name;
  Condition condition = Condition::complete;
  std::optional<CheckpointFacts> facts;  ///< Set if there is a record.
  std::int64_t bytes = 0;                ///< Size of its state files; without a record, of all its files.
  std::string why;                       ///< The reason if it is damaged.
};

struct CheckpointList {
  std::filesystem::path path;
  std::optional<std::string> latest;          ///< The content of the file `latest`, whether or not it names an existing
                                              ///< checkpoint.
  std::vector<ListedCheckpoint> checkpoints;  ///< Sorted by name.
};

/// Size of the files in `folder`; files that cannot be looked at do not count.
[[nodiscard]] std::int64_t bytes_in(std::filesystem::path const& folder);
/// Throws SystemError if `folder` is not a folder, or contains nothing of checkpoints.
[[nodiscard]] CheckpointList list(std::filesystem::path const& folder);
[[nodiscard]] std::string as_text(CheckpointList const& list, Paper const& paper = {});
[[nodiscard]] std::string as_json(CheckpointList const& list);

}  // namespace zeroth::tools
