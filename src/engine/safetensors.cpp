// SPDX-License-Identifier: Apache-2.0
#include "engine/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

constexpr std::int64_t header_alignment = 8;

}  // namespace

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
      problems.push_back({"", 0,
                          fmt::format("has {} bytes behind its header, and its tensors take {}: it is cut off or "
                                      "damaged",
                                      data, header.data_bytes)});
    }
  } else {
    problems.push_back(
        {"", 0, fmt::format("does not begin with the length of a header, of at most {} bytes", largest_text)});
  }
  if (!problems.empty()) {
    throw SystemError{problems.text(fmt::format("{} is no usable safetensors file", path_.string()))};
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

SafetensorsWriter::SafetensorsWriter(std::filesystem::path const& file, std::span<NamedShape const> tensors,
                                     Dtype dtype)
    : file_{"weights", file}, dtype_{dtype} {
  auto const* const format_name = dtype == Dtype::fp32 ? "F32" : dtype == Dtype::bf16 ? "BF16" : "F16";
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};  // what transformers asks for before it loads a file
  auto& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
  std::int64_t offset = 0;
  for (auto const& [name, shape] : tensors) {
    std::int64_t bytes = bytes_of(dtype);
    for (auto const extent : shape) {
      bytes *= extent;
    }
    // Not by header[name], which looks through all that are there.
    entries.push_back({name, {{"dtype", format_name}, {"shape", shape}, {"data_offsets", {offset, offset + bytes}}}});
    offset += bytes;
  }
  auto text = header.dump();
  text.resize((text.size() + header_alignment - 1) / header_alignment * header_alignment, ' ');
  std::uint64_t const header_bytes = text.size();
  file_.write(std::as_bytes(std::span{&header_bytes, 1}));
  file_.write(text);
}

void SafetensorsWriter::append(std::span<float const> values) {
  auto const narrowed = [&]<class T>(T) {
    std::vector<T> narrow(values.size());
    std::ranges::transform(values, narrow.begin(), [](float value) { return from_float<T>(value); });
    file_.write(std::as_bytes(std::span{narrow}));
  };
  switch (dtype_) {
    case Dtype::bf16: return narrowed(bf16{});
    case Dtype::fp16: return narrowed(fp16{});
    default: file_.write(std::as_bytes(values));
  }
}

}  // namespace zeroth::engine
