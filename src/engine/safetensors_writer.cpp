// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/engine/safetensors_writer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace zeroth::engine {
namespace {

constexpr std::int64_t header_alignment = 8;

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path const& file, std::span<NamedShape const> tensors,
                                     Dtype dtype)
    : file_{"weights", file}, dtype_{dtype} {
  auto const* const format_name = dtype == Dtype::fp32 ? "F32" : dtype == Dtype::bf16 ? "BF16" : "F16";
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};  // transformers requires it to load a file
  auto& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
  std::int64_t offset = 0;
  for (auto const& [name, shape] : tensors) {
    std::int64_t bytes = bytes_of(dtype);
    for (auto const extent : shape) {
      bytes *= extent;
    }
    // header[name] would search all entries.
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
