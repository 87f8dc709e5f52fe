// SPDX-License-Identifier: Apache-2.0
#include "engine/safetensors_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "zeroth/core/error.hpp"

namespace zeroth::engine {

SafetensorsReader::SafetensorsReader(std::filesystem::path file) : path_{std::move(file)} {
  try {
    file_.emplace(path_);
    parse();
  } catch (Unreadable const& error) {
    throw SystemError{fmt::format("{}: {}", path_.string(), error.what())};
  }
}

void SafetensorsReader::parse() {
  config::Problems problems;
  TensorHeader header;
  if (auto const text = header_text(*file_)) {
    auto const document = config::read_document(*text, problems, config::Comments::refused);
    header = read_header(document, problems);
    data_begin_ = data_begin(*text);
    if (auto const data = file_->bytes() - data_begin_; problems.empty() && data != header.data_bytes) {
      problems.push_back(
          {"", 0,
           fmt::format("has {} bytes after its header, but its tensors take {}: it is cut off or damaged", data,
                       header.data_bytes)});
    }
  } else {
    problems.push_back(
        {"", 0, fmt::format("does not begin with the length of a header, of at most {} bytes", largest_text)});
  }
  if (!problems.empty()) {
    throw SystemError{problems.text(fmt::format("{} is not a usable safetensors file", path_.string()))};
  }
  for (auto& tensor : header.tensors) {
    auto name = tensor.name;
    tensors_.emplace(std::move(name), std::move(tensor));
  }
}

void SafetensorsReader::read_bytes(std::int64_t position, std::span<std::byte> bytes) const {
  try {
    file_->read(position, bytes);
  } catch (Unreadable const& error) {
    throw SystemError{fmt::format("{}: {}", path_.string(), error.what())};
  }
}

void SafetensorsReader::read(Tensor const& tensor, std::int64_t first, std::span<float> values) const {
  auto const widen = [&]<class T>(T) {
    std::vector<T> narrow(values.size());
    read_bytes(data_begin_ + tensor.offset + first * static_cast<std::int64_t>(sizeof(T)),
               std::as_writable_bytes(std::span{narrow}));
    std::ranges::transform(narrow, values.begin(), [](T value) { return to_float(value); });
  };
  if (tensor.dtype == "F32") {
    read_bytes(data_begin_ + tensor.offset + first * static_cast<std::int64_t>(sizeof(float)),
               std::as_writable_bytes(values));
  } else if (tensor.dtype == "BF16") {
    widen(bf16{});
  } else if (tensor.dtype == "F16") {
    widen(fp16{});
  } else {
    throw SystemError{fmt::format("{}: tensor {} has dtype {}; allowed: F32, BF16 or F16", path_.string(),
                                  config::in_quotes(tensor.name), tensor.dtype)};
  }
}

}  // namespace zeroth::engine
