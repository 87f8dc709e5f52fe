/// The safetensors file format: an 8-byte length, a JSON header, and the tensors' bytes one after another.
/// (https://github.com/huggingface/safetensors, "Format")
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/whole_file.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::engine {

struct Tensor {
  Dtype dtype = Dtype::fp32;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0, bytes = 0;  ///< From the start of the file's data.
};

/// Reads ranges of a file. Throws SystemError, naming the file, for what cannot be read or is no safetensors file.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(std::filesystem::path file);
  SafetensorsReader(SafetensorsReader const&) = delete;
  SafetensorsReader& operator=(SafetensorsReader const&) = delete;
  ~SafetensorsReader();
  [[nodiscard]] std::map<std::string, Tensor> const& tensors() const noexcept { return tensors_; }
  /// Elements [first, first + values.size()) of a fp32, bf16 or fp16 tensor.
  void read(Tensor const& tensor, std::int64_t first, std::span<float> values) const;

 private:
  void parse();
  void read_bytes(std::int64_t position, std::span<std::byte> bytes) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::int64_t file_bytes_ = 0, data_begin_ = 0;
  std::map<std::string, Tensor> tensors_;
};

struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// Writes fp32 tensors in the order given, as a WholeFile. Throws SystemError naming the file and the reason.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::filesystem::path const& file, std::span<NamedShape const> tensors);
  void append(std::span<float const> values) { file_.write(std::as_bytes(values)); }
  void commit() { file_.publish(); }

 private:
  WholeFile file_;
};

}  // namespace zeroth::engine
