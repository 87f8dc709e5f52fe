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
  std::string name;                                   ///< Its name in the file.
  std::vector<std::int64_t> shape;                    ///< Extents, slowest first.
  Dtype dtype = Dtype::fp32;                          ///< fp32, bf16 or fp16.
  [[nodiscard]] std::int64_t count() const noexcept;  ///< Elements.
};

/// Writes tensors in the given order, as a WholeFile: the file appears when commit()
/// returns, or not at all. Throws SystemError naming the file and the reason. Use it on one thread at a time.
class ZEROTH_EXPORT SafetensorsWriter {
 public:
  /// Opens the file and writes its header.
  SafetensorsWriter(std::filesystem::path const& file, std::span<NamedShape const> tensors);
  /// Appends the next elements, rounded to their tensor's dtype. They may span tensors. Throws ContractError for more
  /// elements than the tensors have.
  void append(std::span<float const> values);
  /// Gives the file its name, after the last element. Must be the last call.
  void commit() { file_.publish(); }

 private:
  /// Elements of consecutive tensors of one dtype.
  struct Run {
    Dtype dtype;
    std::int64_t count;
  };
  void append(std::span<float const> values, Dtype dtype);

  WholeFile file_;
  std::vector<Run> runs_;
  std::size_t run_ = 0;    // the one of the next element
  std::int64_t done_ = 0;  // elements of that run which were appended
};

}  // namespace zeroth::engine
