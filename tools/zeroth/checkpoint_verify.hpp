// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint verify`: compares every byte of every file with the hashes saved with it.
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
  std::string no_record;  ///< The reason if checkpoint.json cannot be used; everything else is then unknown.
  std::int64_t step = 0;
  int places = 0;
  std::int64_t bytes = 0;  ///< Total size of undamaged files.
  std::int64_t read = 0;   ///< Files examined; stops early if very many are damaged.
  std::vector<DamagedFile> damaged;

  [[nodiscard]] bool whole() const noexcept { return no_record.empty() && damaged.empty(); }
};

/// Verifies a checkpoint's folder. Uses 8 MiB in addition to the result.
[[nodiscard]] Verification verify(std::filesystem::path const& checkpoint);
[[nodiscard]] std::string as_text(Verification const& found, Paper const& paper = {});
[[nodiscard]] std::string as_json(Verification const& found);

}  // namespace zeroth::tools
