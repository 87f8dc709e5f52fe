// SPDX-License-Identifier: Apache-2.0
/// Safetensors files as Hugging Face writes them: the tensors' bytes one after another, behind a header.
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

/// A tensor that is to be written.
struct NamedShape {
  std::string name;                 ///< As it is to be in the file.
  std::vector<std::int64_t> shape;  ///< Extents, the slowest first.
};

/// Writes tensors of one dtype, fp32, bf16 or fp16, in the order given, as a WholeFile: it is there once commit()
/// returns, or not at all. Throws SystemError naming the file and the reason. For one thread at a time.
class ZEROTH_EXPORT SafetensorsWriter {
 public:
  /// Opens it, and writes its header.
  SafetensorsWriter(std::filesystem::path const& file, std::span<NamedShape const> tensors, Dtype dtype);
  /// The next elements, of however many tensors, rounded to the dtype.
  void append(std::span<float const> values);
  /// Behind the last element: gives the file its name. The last call.
  void commit() { file_.publish(); }

 private:
  WholeFile file_;
  Dtype dtype_;
};

}  // namespace zeroth::engine
