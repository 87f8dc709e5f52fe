// SPDX-License-Identifier: Apache-2.0
/// Headers of safetensors files: an 8-byte length, then JSON that describes the bytes after it.
/// (https://github.com/huggingface/safetensors, "Format")
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/export.hpp"
#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/core/input_file.hpp"

namespace zeroth::engine {

/// One tensor.
struct Tensor {
  std::string name;                 ///< As in the file.
  std::string dtype;                ///< The dtype as the format spells it: "F32".
  std::vector<std::int64_t> shape;  ///< Extents, slowest first.
  std::int64_t offset = 0;          ///< Byte offset from the start of the file's data.
  std::int64_t bytes = 0;           ///< Bytes of its elements.
};

/// A file's header.
struct TensorHeader {
  std::vector<Tensor> tensors;  ///< In header order.
  std::int64_t data_bytes = 0;  ///< Bytes of all tensors.
};

/// The header's text, or nullopt if the file does not begin with a valid length. Throws Unreadable if the file ends
/// before its header does.
[[nodiscard]] ZEROTH_EXPORT std::optional<std::string> header_text(InputFile const& file);
/// Offset of the data in a file with a header of `text`.
[[nodiscard]] ZEROTH_EXPORT std::int64_t data_begin(std::string_view text) noexcept;

/// Parses a header. Adds a problem for everything that the format does not allow: unknown dtypes, invalid shapes and
/// offsets, duplicate names, and bytes of two tensors or of none. If it does, the result must not be used.
[[nodiscard]] ZEROTH_EXPORT TensorHeader read_header(config::Object const& header, config::Problems& problems);

}  // namespace zeroth::engine
