// SPDX-License-Identifier: Apache-2.0
/// What a checkpoint says of itself, and what can be seen of its files without reading all of them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <zeroth/checkpoint/record.hpp>

namespace zeroth::tools {

/// A file of a checkpoint that is not as it should be.
struct WrongFile {
  std::string name;
  std::string why;  ///< Its size, its header, or that it is not there.
};

/// A state of the optimizer, of all parameters that have one.
struct StateFacts {
  std::string name;
  Dtype dtype = Dtype::fp32;
  std::int64_t count = 0;  ///< Elements, without paddings.
};

/// Parameters, and elements of them.
struct ParamCount {
  std::int64_t params = 0;
  std::int64_t elements = 0;
};

struct CheckpointFacts {
  std::filesystem::path path;
  checkpoint::Record record;
  std::int64_t bytes = 0;         ///< Of its files of states, as far as they are there.
  std::int64_t record_bytes = 0;  ///< Of checkpoint.json.
  std::int64_t looked_at = 0;     ///< Files of states; the last ones are left out of one that lacks very many.
  std::vector<WrongFile> wrong;
  std::vector<StateFacts> states;
  ParamCount all, frozen, tied;
  std::string compute;  ///< The dtype of the math, by its stage file; empty if that does not say so.
};

/// Files of one checkpoint that are looked at though they are wrong: of a forged one that claims millions, no more.
inline constexpr std::size_t most_wrong_files = 1000;

/// Of the folder of a checkpoint. Throws SystemError if its record cannot be read.
[[nodiscard]] CheckpointFacts look_at(std::filesystem::path const& checkpoint);

/// 0 where there is none.
[[nodiscard]] std::int64_t bytes_of_file(std::filesystem::path const& file) noexcept;

/// The dtype of the math, by the resolved stage file of a record: "bf16"; empty if it does not say so.
[[nodiscard]] std::string compute_dtype_of(checkpoint::Record const& record);

}  // namespace zeroth::tools
