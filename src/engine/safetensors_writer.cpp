// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/engine/safetensors_writer.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

constexpr std::int64_t header_alignment = 8;

}  // namespace

std::int64_t NamedShape::count() const noexcept {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies{});
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path const& file, std::span<NamedShape const> tensors)
    : file_{"weights", file} {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};  // transformers requires it to load a file
  auto& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
  std::int64_t offset = 0;
  for (auto const& tensor : tensors) {
    auto const* const format_name = tensor.dtype == Dtype::fp32 ? "F32" : tensor.dtype == Dtype::bf16 ? "BF16" : "F16";
    auto const end = offset + tensor.count() * bytes_of(tensor.dtype);
    // header[name] would search all entries.
    entries.push_back(
        {tensor.name, {{"dtype", format_name}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}}});
    offset = end;
    if (runs_.empty() || runs_.back().dtype != tensor.dtype) {
      runs_.push_back({tensor.dtype, 0});
    }
    runs_.back().count += tensor.count();
  }
  auto text = header.dump();
  text.resize((text.size() + header_alignment - 1) / header_alignment * header_alignment, ' ');
  std::uint64_t const header_bytes = text.size();
  file_.write(std::as_bytes(std::span{&header_bytes, 1}));
  file_.write(text);
}

void SafetensorsWriter::append(std::span<float const> values) {
  while (!values.empty()) {
    ZEROTH_EXPECTS(run_ < runs_.size(), "more elements were written than the tensors of a safetensors file have");
    auto const& [dtype, count] = runs_[run_];
    auto const some = values.first(std::min(values.size(), static_cast<std::size_t>(count - done_)));
    append(some, dtype);
    values = values.subspan(some.size());
    done_ += std::ssize(some);
    if (done_ == count) {
      ++run_;
      done_ = 0;
    }
  }
}

void SafetensorsWriter::append(std::span<float const> values, Dtype dtype) {
  auto const narrowed = [&]<class T>(T) {
    std::vector<T> narrow(values.size());
    std::ranges::transform(values, narrow.begin(), [](float value) { return from_float<T>(value); });
    file_.write(std::as_bytes(std::span{narrow}));
  };
  switch (dtype) {
    case Dtype::bf16: return narrowed(bf16{});
    case Dtype::fp16: return narrowed(fp16{});
    default: file_.write(std::as_bytes(values));
  }
}

}  // namespace zeroth::engine
