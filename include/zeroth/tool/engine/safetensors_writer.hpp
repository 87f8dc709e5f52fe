// SPDX-License-Identifier: Apache-2.0
/// Writes safetensors files as Hugging Face does: a header, then the tensors' bytes.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/tool/core/whole_file.hpp"

namespace zeroth::engine {

/// A tensor to write.
struct NamedShape {
  std::string name;                 ///< Its name in the file.
  std::vector<std::int64_t> shape;  ///< Extents, slowest first.
};

/// Writes tensors of one dtype, fp32, bf16 or fp16, in the given order, as a WholeFile: the file appears when commit()
/// returns, or not at all. Throws SystemError naming the file and the reason. Use it on one thread at a time.
class ZEROTH_EXPORT SafetensorsWriter {
 public:
  /// Opens the file and writes its header.
  SafetensorsWriter(std::filesystem::path const& file, std::span<NamedShape const> tensors, Dtype dtype);
  /// Appends the next elements, rounded to the dtype. They may span tensors.
  void append(std::span<float const> values);
  /// Gives the file its name, after the last element. Must be the last call.
  void commit() { file_.publish(); }

 private:
  WholeFile file_;
  Dtype dtype_;
};

}  // namespace zeroth::engine
