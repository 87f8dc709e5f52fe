// SPDX-License-Identifier: Apache-2.0
/// Safetensors files: the tensors' bytes one after another, behind a header.
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
#include "zeroth/core/input_file.hpp"
#include "zeroth/core/whole_file.hpp"
#include "zeroth/engine/safetensors_header.hpp"

namespace zeroth::engine {

/// Reads ranges of a file. Throws SystemError, naming the file and all that is wrong, for what cannot be read or is no
/// safetensors file as the format says, to its last byte.
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

struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// Writes tensors of one dtype, fp32, bf16 or fp16, in the order given, as a WholeFile. Throws SystemError naming the
/// file and the reason.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::filesystem::path const& file, std::span<NamedShape const> tensors, Dtype dtype);
  /// The next elements, rounded to the dtype.
  void append(std::span<float const> values);
  void commit() { file_.publish(); }

 private:
  WholeFile file_;
  Dtype dtype_;
};

}  // namespace zeroth::engine
