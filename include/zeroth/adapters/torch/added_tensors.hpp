// SPDX-License-Identifier: Apache-2.0
/// Adds tensors that engines do not know to a safetensors file that an engine has written.
#pragma once
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "zeroth/core/error.hpp"
#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/core/input_file.hpp"
#include "zeroth/tool/core/whole_file.hpp"
#include "zeroth/tool/engine/safetensors_header.hpp"

namespace zeroth::torch_adapter::detail {

/// The element types of the format that libtorch has.
struct StoredType {
  char const* name;
  at::ScalarType type;
};
inline constexpr std::array<StoredType, 10> stored_types{{{"F32", at::kFloat},
                                                          {"F64", at::kDouble},
                                                          {"F16", at::kHalf},
                                                          {"BF16", at::kBFloat16},
                                                          {"I64", at::kLong},
                                                          {"I32", at::kInt},
                                                          {"I16", at::kShort},
                                                          {"I8", at::kChar},
                                                          {"U8", at::kByte},
                                                          {"BOOL", at::kBool}}};

/// The libtorch type of an element type of the format, if there is one.
[[nodiscard]] inline std::optional<at::ScalarType> stored_type(std::string const& name) {
  auto const* const at = std::ranges::find(stored_types, name, &StoredType::name);
  return at == stored_types.end() ? std::nullopt : std::optional{at->type};
}

/// Reads the header of an open file. Throws SystemError with the file's problems.
[[nodiscard]] inline std::pair<engine::TensorHeader, std::int64_t> header_and_data_begin(
    InputFile const& file, std::filesystem::path const& path) {
  config::Problems problems;
  auto const text = engine::header_text(file);
  auto header =
      engine::read_header(config::read_document(text.value_or(""), problems, config::Comments::refused), problems);
  if (!problems.empty()) {  // the engine has read or written a whole one
    throw SystemError{problems.text(path.string() + " has changed since its parameters were read or written")};
  }
  return {std::move(header), engine::data_begin(*text)};
}

/// The header of a file, tensor by tensor.
class HeaderText {
 public:
  void add(std::string const& name, std::string const& type, std::span<std::int64_t const> shape, std::int64_t bytes) {
    text_ += "," + quoted(name) + R"(:{"dtype":")" + type + R"(","shape":[)";
    for (std::size_t i = 0; i < shape.size(); ++i) {
      text_ += (i == 0 ? "" : ",") + std::to_string(shape[i]);
    }
    text_ += R"(],"data_offsets":[)" + std::to_string(offset_) + "," + std::to_string(offset_ + bytes) + "]}";
    offset_ += bytes;
  }
  /// The text with its length before it.
  [[nodiscard]] std::string finished() const {
    auto text = text_ + "}";
    text.resize((text.size() + 7) / 8 * 8, ' ');
    auto const length = static_cast<std::uint64_t>(text.size());
    return std::string{reinterpret_cast<char const*>(&length), sizeof length} + text;
  }

 private:
  [[nodiscard]] static std::string quoted(std::string const& name) {
    std::string result{'"'};
    for (char const character : name) {
      if (auto const code = static_cast<unsigned char>(character); code < 0x20) {
        std::array<char, 8> escape{};
        std::snprintf(escape.data(), escape.size(), "\\u%04x", code);
        result += escape.data();
      } else {
        result += (character == '"' || character == '\\') ? std::string{'\\', character} : std::string(1, character);
      }
    }
    return result + '"';
  }
  std::string text_ = R"({"__metadata__":{"format":"pt"})";  // transformers requires it
  std::int64_t offset_ = 0;
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes a file with the tensors of `from`, which an engine has written in one dtype, and `more`. Tensors with larger
/// elements come first, so that all are aligned. Throws ContractError for a type that the format does not have, and
/// SystemError if a file cannot be read or written.
inline void write_with(std::filesystem::path const& from, std::filesystem::path const& to, NamedTensors more) try {
  InputFile const file{from};
  auto const [header, begin] = header_and_data_begin(file, from);
  auto const element_bytes = header.tensors.front().dtype == "F32" ? 4 : 2;
  std::ranges::stable_sort(more, std::greater{}, [](auto const& item) { return item.second.element_size(); });
  auto const smaller = std::ranges::find_if(
      more, [&](auto const& item) { return static_cast<int>(item.second.element_size()) < element_bytes; });
  HeaderText text;
  auto const describe = [&](auto const& first, auto const& last) {
    for (auto at = first; at != last; ++at) {
      auto const* const type = std::ranges::find(stored_types, at->second.scalar_type(), &StoredType::type);
      ZEROTH_EXPECTS(type != stored_types.end(), "save_weights(): \"" + at->first + "\" is of type " +
                                                     c10::toString(at->second.scalar_type()) +
                                                     ", which safetensors files do not have: "
                                                     "TrainerOptions::buffers_not_saved leaves it out");
      at->second = at->second.detach().contiguous();
      auto const sizes = at->second.sizes();
      text.add(at->first, type->name, {sizes.data(), sizes.size()}, static_cast<std::int64_t>(at->second.nbytes()));
    }
  };
  describe(more.begin(), smaller);
  for (auto const& tensor : header.tensors) {
    text.add(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
  }
  describe(smaller, more.end());

  WholeFile out{"weights", to};
  out.write(text.finished());
  auto const write = [&](auto const& first, auto const& last) {
    for (auto at = first; at != last; ++at) {
      out.write({static_cast<std::byte const*>(at->second.const_data_ptr()), at->second.nbytes()});
    }
  };
  write(more.begin(), smaller);
  std::vector<std::byte> piece(std::size_t{1} << 20U);
  for (std::int64_t done = 0; done < header.data_bytes; done += std::ssize(piece)) {
    piece.resize(static_cast<std::size_t>(std::min(std::ssize(piece), header.data_bytes - done)));
    file.read(begin + done, piece);
    out.write(piece);
  }
  write(smaller, more.end());
  out.publish();
} catch (Unreadable const& error) {
  throw SystemError{from.string() + ": " + error.what()};
}

}  // namespace zeroth::torch_adapter::detail
