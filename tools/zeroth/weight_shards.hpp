// SPDX-License-Identifier: Apache-2.0
/// Divides weights among files in the layout of Hugging Face's libraries.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zeroth::tools {

/// Consecutive tensors [first, last).
struct WeightShard {
  std::string name;  ///< "model.safetensors", or "model-00001-of-00003.safetensors".
  std::size_t first = 0, last = 0;
};

/// Fills each file with consecutive tensors up to `most` bytes; a larger tensor gets its own file. Without `most` there
/// is one file. There is always at least one.
[[nodiscard]] std::vector<WeightShard> divide(std::vector<std::int64_t> const& bytes_of_tensors,
                                              std::optional<std::int64_t> most);

/// Name and text of the index: which tensor is in which file.
inline constexpr char const* weight_index_name = "model.safetensors.index.json";
[[nodiscard]] std::string weight_index(std::vector<std::string> const& names, std::vector<WeightShard> const& shards,
                                       std::int64_t bytes);

}  // namespace zeroth::tools
