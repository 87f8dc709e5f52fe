// SPDX-License-Identifier: Apache-2.0
/// Safetensors files, read range by range.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zeroth/core/dtype.hpp"
#include "zeroth/tool/core/input_file.hpp"
#include "zeroth/tool/engine/safetensors_header.hpp"

namespace zeroth::engine {

/// Reads ranges of a file. Throws SystemError, which names the file and all problems, if the file cannot be read or
/// breaks the safetensors format anywhere.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(std::filesystem::path file);
  [[nodiscard]] std::map<std::string, Tensor> const& tensors() const noexcept { return tensors_; }
  /// Elements [first, first + values.size()) of a fp32, bf16 or fp16 tensor.
  void read(Tensor const& tensor, std::int64_t first, std::span<float> values) const;

 private:
  void parse();
  void read_bytes(std::int64_t position, std::span<std::byte> bytes) const;

  std::filesystem::path path_;
  std::optional<InputFile> file_;
  std::int64_t data_begin_ = 0;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace zeroth::engine
