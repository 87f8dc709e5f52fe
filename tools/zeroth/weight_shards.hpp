// SPDX-License-Identifier: Apache-2.0
/// How weights are divided among files, as Hugging Face's libraries read them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zeroth::tools {

/// Tensors [first, last), one behind the other.
struct WeightShard {
  std::string name;  ///< "model.safetensors", or "model-00001-of-00003.safetensors".
  std::size_t first = 0, last = 0;
};

/// In the order given, each as many as fit into `most` bytes; a tensor that does not gets a file of its own. Without
/// `most` it is one file; at least one there always is.
[[nodiscard]] std::vector<WeightShard> divide(std::vector<std::int64_t> const& bytes_of_tensors,
                                              std::optional<std::int64_t> most);

/// Its name, and its text: which tensor is in which of several files.
inline constexpr char const* weight_index_name = "model.safetensors.index.json";
[[nodiscard]] std::string weight_index(std::vector<std::string> const& names, std::vector<WeightShard> const& shards,
                                       std::int64_t bytes);

}  // namespace zeroth::tools
