// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/engine/safetensors_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

namespace zeroth::engine {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

using config::Member;
using config::Object;
using config::Problems;

constexpr std::int64_t length_bytes = sizeof(std::uint64_t);
constexpr std::int64_t largest_header = largest_text;  // the limit of the format's own reader, too
constexpr std::string_view metadata = "__metadata__";

struct FormatDtype {
  std::string_view name;
  int bits;
};
constexpr std::array dtypes{
    FormatDtype{"BOOL", 8},    FormatDtype{"F4", 4},   FormatDtype{"F6_E2M3", 6}, FormatDtype{"F6_E3M2", 6},
    FormatDtype{"U8", 8},      FormatDtype{"I8", 8},   FormatDtype{"F8_E5M2", 8}, FormatDtype{"F8_E4M3", 8},
    FormatDtype{"F8_E8M0", 8}, FormatDtype{"I16", 16}, FormatDtype{"U16", 16},    FormatDtype{"F16", 16},
    FormatDtype{"BF16", 16},   FormatDtype{"I32", 32}, FormatDtype{"U32", 32},    FormatDtype{"F32", 32},
    FormatDtype{"C64", 64},    FormatDtype{"F64", 64}, FormatDtype{"I64", 64},    FormatDtype{"U64", 64}};

/// The node's numbers if all are at least 0; nullopt for anything else.
std::optional<std::vector<std::int64_t>> naturals(config::Node const& node) {
  auto const* const array = std::get_if<config::Array>(&node.value);
  if (array == nullptr) {
    return {};
  }
  std::vector<std::int64_t> numbers;
  for (auto const& item : *array) {
    auto const* const number = std::get_if<config::Number>(&item.value);
    if (number == nullptr || !number->integer || *number->integer < 0) {
      return {};
    }
    numbers.push_back(*number->integer);
  }
  return numbers;
}

/// Bytes of all elements; nullopt if they overflow, or are not a whole number of bytes.
std::optional<std::int64_t> bytes_of_shape(std::vector<std::int64_t> const& shape, int bits) {
  if (std::ranges::find(shape, 0) != shape.end()) {
    return 0;
  }
  std::int64_t total = bits;
  for (auto const extent : shape) {
    if (total > std::numeric_limits<std::int64_t>::max() / extent) {
      return {};
    }
    total *= extent;
  }
  return total % 8 == 0 ? std::optional{total / 8} : std::nullopt;
}

class EntryReader {
 public:
  EntryReader(Member const& entry, Problems& problems) : entry_{entry}, problems_{problems} {}

  std::optional<Tensor> read() {
    auto const* const object = std::get_if<Object>(&entry_.node.value);
    if (object == nullptr) {
      return refuse("", [&] {
        return fmt::format("{}; allowed: an object with dtype, shape and data_offsets", show(entry_.node));
      });
    }
    Tensor tensor;
    tensor.name = entry_.name;
    auto const* const dtype = find(*object, "dtype");
    auto const* const shape = find(*object, "shape");
    auto const* const place = find(*object, "data_offsets");
    auto const bits = dtype == nullptr ? 0 : bits_of(dtype->node, tensor.dtype);
    auto const extents = shape == nullptr ? std::nullopt : naturals(shape->node);
    auto const offsets = place == nullptr ? std::nullopt : naturals(place->node);
    if (bits == 0) {
      return refuse(".dtype", [&] { return fmt::format("{}; allowed: {}", said(dtype), names_of_dtypes()); });
    }
    auto const bytes = extents ? bytes_of_shape(*extents, bits) : std::nullopt;
    if (!bytes) {
      return refuse(".shape", [&] {
        return fmt::format(
            "{}; allowed: an array of whole numbers of at least 0, of less than 2^63 bits and of whole "
            "bytes together",
            said(shape));
      });
    }
    if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
      return refuse(".data_offsets", [&] {
        return fmt::format("{}; allowed: two whole numbers of at least 0, begin and end", said(place));
      });
    }
    tensor.shape = *extents;
    tensor.offset = (*offsets)[0];
    tensor.bytes = (*offsets)[1] - (*offsets)[0];
    if (tensor.bytes != *bytes) {
      return refuse(".data_offsets", [&] {
        return fmt::format("{} are {} bytes; {} of shape {} takes {}", said(place), tensor.bytes, tensor.dtype,
                           said(shape), *bytes);
      });
    }
    return tensor;
  }

 private:
  static int bits_of(config::Node const& node, std::string& name) {
    auto const* const text = std::get_if<std::string>(&node.value);
    auto const* const known = text == nullptr ? dtypes.end() : std::ranges::find(dtypes, *text, &FormatDtype::name);
    if (known == dtypes.end()) {
      return 0;
    }
    name = *text;
    return known->bits;
  }
  static std::string names_of_dtypes() {
    std::vector<std::string_view> names;
    for (auto const& dtype : dtypes) {
      names.push_back(dtype.name);
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }
  static std::string said(Member const* member) { return member == nullptr ? "missing" : show(member->node); }

  template <class Text>
  std::nullopt_t refuse(char const* key, Text const& text) {
    if (problems_.full()) {
      problems_.count_one();
    } else {
      problems_.push_back({config::path_part(entry_.name) + key, 0, text()});
    }
    return std::nullopt;
  }

  Member const& entry_;
  Problems& problems_;
};

/// Checks that tensors follow each other without a gap from the first byte on.
void check_places(std::vector<Tensor> const& tensors, Problems& problems) {
  std::vector<Tensor const*> in_order;
  for (auto const& tensor : tensors) {
    in_order.push_back(&tensor);
  }
  std::ranges::sort(in_order, {}, [](Tensor const* tensor) { return std::pair{tensor->offset, tensor->bytes}; });
  std::int64_t end = 0;
  Tensor const* last = nullptr;  // the tensor that ends there
  for (auto const* const tensor : in_order) {
    if (tensor->offset != end && problems.full()) {
      problems.count_one();
    } else if (tensor->offset != end) {
      auto const why = tensor->offset > end ? fmt::format("bytes {} to there belong to no tensor", end)
                                            : fmt::format("{} ends at {}", config::path_part(last->name), end);
      problems.push_back({config::path_part(tensor->name), 0,
                          fmt::format("begins at byte {} of the data, but {}", tensor->offset, why)});
    }
    if (last == nullptr || tensor->offset + tensor->bytes > end) {
      last = tensor;
      end = tensor->offset + tensor->bytes;
    }
  }
}

bool is_text(Member const& member) { return std::holds_alternative<std::string>(member.node.value); }

}  // namespace

std::optional<std::string> header_text(InputFile const& file) {
  std::array<std::byte, length_bytes> first{};
  if (file.read_some(0, first) < first.size()) {
    return {};
  }
  auto const length = std::bit_cast<std::uint64_t>(first);
  if (length > static_cast<std::uint64_t>(largest_header)) {
    return {};
  }
  std::string text(length, '\0');
  if (file.bytes() - length_bytes < static_cast<std::int64_t>(length)) {
    throw Unreadable{fmt::format("ends within its header of {} bytes", length)};
  }
  file.read(length_bytes, std::as_writable_bytes(std::span{text}));
  return text;
}

std::int64_t data_begin(std::string_view text) noexcept { return length_bytes + std::ssize(text); }

TensorHeader read_header(Object const& header, Problems& problems) {
  TensorHeader result;
  for (auto const& entry : header) {
    if (entry.name != metadata) {
      if (auto tensor = EntryReader{entry, problems}.read()) {
        result.data_bytes = std::max(result.data_bytes, tensor->offset + tensor->bytes);
        result.tensors.push_back(std::move(*tensor));
      }
    } else if (auto const* const texts = std::get_if<Object>(&entry.node.value);
               texts == nullptr || !std::ranges::all_of(*texts, is_text)) {
      problems.push_back({entry.name, 0, fmt::format("{}; allowed: an object of strings", show(entry.node))});
    }
  }
  if (problems.empty()) {  // otherwise unreadable entries would be reported as missing
    check_places(result.tensors, problems);
  }
  return result;
}

}  // namespace zeroth::engine
