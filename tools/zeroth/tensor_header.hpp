// SPDX-License-Identifier: Apache-2.0
/// Safetensors files: names and shapes, from their headers alone.
#pragma once
#include <filesystem>

#include "json_file.hpp"
#include "model_source.hpp"

namespace zeroth::tools {

/// By its first bytes, a length and the start of a JSON object, or its name. Throws ConfigError if it cannot be read.
[[nodiscard]] bool is_tensor_file(std::filesystem::path const& file);
[[nodiscard]] bool looks_like_tensor_header(Object const& object);

/// Units by the layer index in names: "transformer.h.3.attn.weight" is of unit "transformer.h.3". What has no index
/// goes to a unit before them if it is an embedding, and to one behind them otherwise. A header has no ties: what was
/// tied is counted once and used once. The file may end behind its header: what a range request fetches.
[[nodiscard]] SourcedModel model_of_tensor_file(std::filesystem::path const& file);
/// The same of a header alone.
[[nodiscard]] SourcedModel model_of_tensor_header(std::filesystem::path const& file, Object const& header);
/// The same for all files of a model.safetensors.index.json, which lie beside it.
[[nodiscard]] SourcedModel model_of_tensor_index(std::filesystem::path const& file, Object const& index);

}  // namespace zeroth::tools
