// SPDX-License-Identifier: Apache-2.0
/// Models from safetensors files: names and shapes, from the headers alone.
#pragma once
#include <filesystem>

#include "json_file.hpp"
#include "model_source.hpp"

namespace zeroth::tools {

/// Detected by its first bytes (a length and the start of a JSON object) or by its name. Throws ConfigError if it
/// cannot be read.
[[nodiscard]] bool is_tensor_file(std::filesystem::path const& file);
[[nodiscard]] bool looks_like_tensor_header(Object const& object);

/// Forms units by the layer index in names: "transformer.h.3.attn.weight" belongs to unit "transformer.h.3". A tensor
/// without an index goes to a unit before the layers if it is an embedding, otherwise to one after them. A header does
/// not record ties: a tied parameter is counted once and used once. The file may end after its header, as a range
/// request returns it.
[[nodiscard]] SourcedModel model_of_tensor_file(std::filesystem::path const& file);
/// The model of a header alone.
[[nodiscard]] SourcedModel model_of_tensor_header(std::filesystem::path const& file, Object const& header);
/// The model of all files that a model.safetensors.index.json lists; they are in the same folder.
[[nodiscard]] SourcedModel model_of_tensor_index(std::filesystem::path const& file, Object const& index);

}  // namespace zeroth::tools
