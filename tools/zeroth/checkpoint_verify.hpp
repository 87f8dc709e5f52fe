// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint verify`: every byte of every file against the hashes that were written with it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <zeroth/checkpoint/file_reader.hpp>

#include "paper.hpp"

namespace zeroth::tools {

struct DamagedFile {
  std::string name;
  std::vector<checkpoint::Damage> damage;
};

struct Verification {
  std::filesystem::path path;
  std::string no_record;  ///< Why checkpoint.json cannot be used; all else is then unknown.
  std::int64_t step = 0;
  int places = 0;
  std::int64_t bytes = 0;  ///< Of the files that are whole.
  std::int64_t read = 0;   ///< Files that were looked at: the last ones are left out where very many are damaged.
  std::vector<DamagedFile> damaged;

  [[nodiscard]] bool whole() const noexcept { return no_record.empty() && damaged.empty(); }
};

/// Of the folder of a checkpoint. Takes 8 MiB, and what it found.
[[nodiscard]] Verification verify(std::filesystem::path const& checkpoint);
[[nodiscard]] std::string as_text(Verification const& found, Paper const& paper = {});
[[nodiscard]] std::string as_json(Verification const& found);

}  // namespace zeroth::tools
