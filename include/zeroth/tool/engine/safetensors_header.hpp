// SPDX-License-Identifier: Apache-2.0
/// The headers of safetensors files: an 8-byte length, then JSON that says where the bytes behind it belong.
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
  std::string dtype;                ///< As the format spells it: "F32".
  std::vector<std::int64_t> shape;  ///< Extents, the slowest first.
  std::int64_t offset = 0;          ///< From the start of the file's data.
  std::int64_t bytes = 0;           ///< Of its elements.
};

/// What a file has.
struct TensorHeader {
  std::vector<Tensor> tensors;  ///< In the order of the header.
  std::int64_t data_bytes = 0;  ///< Of all.
};

/// The text of the header, or nothing if the file's first bytes are no length that can be one. Throws Unreadable if the
/// file ends before its header does.
[[nodiscard]] ZEROTH_EXPORT std::optional<std::string> header_text(InputFile const& file);
/// Where the data begins, behind a header of `text`.
[[nodiscard]] ZEROTH_EXPORT std::int64_t data_begin(std::string_view text) noexcept;

/// Adds a problem for everything that the format does not allow: unknown dtypes, shapes and places that cannot be,
/// names given twice, bytes that two tensors claim or none. The result is then not to be used.
[[nodiscard]] ZEROTH_EXPORT TensorHeader read_header(config::Object const& header, config::Problems& problems);

}  // namespace zeroth::engine
