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

/// Writes fp32 tensors in the order given. The file appears under its name when it is complete and on the disk, or not
/// at all. Throws SystemError naming the file and the reason.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::filesystem::path file, std::span<NamedShape const> tensors);
  SafetensorsWriter(SafetensorsWriter const&) = delete;
  SafetensorsWriter& operator=(SafetensorsWriter const&) = delete;
  ~SafetensorsWriter();  ///< Removes what was not committed.
  void append(std::span<float const> values);
  void commit();

 private:
  void write(std::span<std::byte const> bytes);

  std::filesystem::path file_, partial_;
  int descriptor_ = -1;
};

}  // namespace zeroth::engine
