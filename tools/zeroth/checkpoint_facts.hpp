// SPDX-License-Identifier: Apache-2.0
/// Facts about a checkpoint from its record and its files, without reading all of them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <zeroth/checkpoint/record.hpp>

namespace zeroth::tools {

/// A file of a checkpoint that is missing or damaged.
struct WrongFile {
  std::string name;
  std::string why;  ///< Its size, its header, or that it is missing.
};

/// A state of the optimizer, over all parameters that have it.
struct StateFacts {
  std::string name;
  Dtype dtype = Dtype::fp32;
  std::int64_t count = 0;  ///< Elements, without padding.
};

/// A number of parameters and their elements.
struct ParamCount {
  std::int64_t params = 0;
  std::int64_t elements = 0;
};

struct CheckpointFacts {
  std::filesystem::path path;
  checkpoint::Record record;
  std::int64_t bytes = 0;         ///< Size of its existing state files.
  std::int64_t record_bytes = 0;  ///< Size of checkpoint.json.
  std::int64_t looked_at = 0;     ///< State files examined; stops early if very many are missing.
  std::vector<WrongFile> wrong;
  std::vector<StateFacts> states;
  ParamCount all, frozen, tied;
  std::string compute;  ///< The dtype of the math in its stage file; empty if not stated there.
};

/// Maximum number of wrong files to examine in a checkpoint: a forged record may claim millions.
inline constexpr std::size_t most_wrong_files = 1000;

/// The facts of a checkpoint's folder. Throws SystemError if its record cannot be read.
[[nodiscard]] CheckpointFacts look_at(std::filesystem::path const& checkpoint);

/// 0 if the file does not exist.
[[nodiscard]] std::int64_t bytes_of_file(std::filesystem::path const& file) noexcept;

/// The dtype of the math, from the resolved stage file of a record, such as "bf16"; empty if not stated there.
[[nodiscard]] std::string compute_dtype_of(checkpoint::Record const& record);

}  // namespace zeroth::tools
