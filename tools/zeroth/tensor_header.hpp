/// Safetensors files: names and shapes, from their headers alone.
#pragma once
#include <filesystem>

#include "json_file.hpp"
#include "model_source.hpp"

namespace zeroth::tools {

/// By its first bytes: a length and the start of a JSON object.
[[nodiscard]] bool is_tensor_file(std::filesystem::path const& file);
/// The header of a file, which may end behind it: what a range request fetches. Throws ConfigError.
[[nodiscard]] Json read_tensor_header(std::filesystem::path const& file);
[[nodiscard]] bool looks_like_tensor_header(Json const& json);

/// Units by the layer index in names: "transformer.h.3.attn.weight" is of unit "transformer.h.3". What has no index
/// goes to a unit before them if it is an embedding, and to one behind them otherwise. A header has no ties: what was
/// tied is counted once and used once.
[[nodiscard]] SourcedModel model_of_tensor_header(std::filesystem::path const& file, Json const& header);
/// The same for all files of a model.safetensors.index.json, which lie beside it.
[[nodiscard]] SourcedModel model_of_tensor_index(std::filesystem::path const& file, Json const& index);

}  // namespace zeroth::tools
