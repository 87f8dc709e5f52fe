// SPDX-License-Identifier: Apache-2.0
#include "tensor_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include <zeroth/core/error.hpp>
#include <zeroth/tool/core/input_file.hpp>
#include <zeroth/tool/core/utf8.hpp>
#include <zeroth/tool/engine/safetensors_header.hpp>

#include "model_builder.hpp"
#include "tensor_shape.hpp"

namespace zeroth::tools {
namespace {

namespace fs = std::filesystem;

struct Tensor {
  std::string name;
  FoldedShape shape;
};

/// The sort key of a tensor's unit: embeddings, then layers by the name before the index and by the index, then the
/// rest.
struct Place {
  int part = 0;
  std::string stem;
  std::int64_t index = 0;
  auto operator<=>(Place const&) const = default;  // NOLINT(modernize-use-nullptr): the 0 is the compiler's own
};

bool is_embedding(std::string_view name) {
  return std::ranges::any_of(std::array{"embed", "wte", "wpe"},
                             [&](char const* part) { return name.find(part) != std::string_view::npos; });
}

/// The first numeric part of the name is the layer's index.
Place place_of(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    auto const end = std::min(name.find('.', begin), name.size());
    std::int64_t index = 0;
    auto const [rest, error] = std::from_chars(name.data() + begin, name.data() + end, index);
    if (begin > 0 && end > begin && error == std::errc{} && rest == name.data() + end && index >= 0) {
      return {1, std::string{name.substr(0, begin - 1)}, index};
    }
    begin = end + 1;
  }
  return {is_embedding(name) ? 0 : 2, is_embedding(name) ? "embedding" : "head", 0};
}

/// Masks and tables that transformers saved among the weights of some models.
bool is_constant(std::string_view name, FoldedShape const& shape) {
  return (name.ends_with(".attn.bias") && shape.dimensions == 4) || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

bool is_floating(std::string_view dtype) { return dtype.starts_with('F') || dtype.starts_with("BF"); }

/// Appends the trained tensors of a header. `left_out` counts the others.
void add_tensors(fs::path const& file, engine::TensorHeader const& header, std::vector<Tensor>& tensors,
                 int& left_out) {
  for (auto const& [name, dtype, extents, offset, bytes] : header.tensors) {
    bool const empty = std::ranges::find(extents, 0) != extents.end();
    auto const shape = empty ? std::nullopt : folded(extents);
    if (!shape) {
      throw ConfigError{fmt::format("{}: {}.shape is [{}]; allowed: {}", file.string(), config::path_part(name),
                                    fmt::join(extents, ", "), empty ? "extents of at least 1" : too_large)};
    }
    if (is_floating(dtype) && !is_constant(name, *shape)) {
      tensors.push_back({name, *shape});
    } else {
      ++left_out;
    }
  }
}

engine::TensorHeader checked_header(fs::path const& file, Object const& object) {
  config::Problems problems;
  auto header = engine::read_header(object, problems);
  config::throw_if_any(file.string(), problems);
  return header;
}

/// Reads the header, and checks that the file is not longer than the header says.
engine::TensorHeader header_of_file(fs::path const& path) {
  try {
    InputFile const file{path};
    auto const text = engine::header_text(file);
    if (!text) {
      throw Unreadable{
          fmt::format("is not a safetensors file: it does not begin with the length of a header, of at most {} bytes",
                      largest_text)};
    }
    auto header = checked_header(path, parse_json(path, *text));
    if (auto const data = file.bytes() - engine::data_begin(*text); data > header.data_bytes) {
      throw Unreadable{fmt::format("has {} bytes after its header, but its tensors take {}", data, header.data_bytes)};
    }
    return header;
  } catch (Unreadable const& error) {
    throw ConfigError{fmt::format("{}: {}", path.string(), error.what())};
  }
}

SourcedModel model_of(fs::path const& file, std::vector<Tensor> const& tensors, int left_out) {
  if (tensors.empty()) {
    throw ConfigError{fmt::format("{}: has no floating-point tensors", file.string())};
  }
  std::map<Place, std::vector<Tensor const*>> places;
  for (auto const& tensor : tensors) {
    places[place_of(tensor.name)].push_back(&tensor);
  }
  ModelBuilder build{file.string()};
  for (auto const& [place, members] : places) {
    build.unit(place.part == 1 ? fmt::format("{}.{}", place.stem, place.index) : place.stem);
    for (auto const* const tensor : members) {
      auto const& shape = tensor->shape;
      if (shape.dimensions < 2) {
        build.vector(tensor->name, shape.rows);
      } else if (is_embedding(tensor->name)) {
        build.table(tensor->name, shape.rows, shape.columns);
      } else {
        build.matrix(tensor->name, shape.rows, shape.columns);
      }
    }
  }
  auto const out = left_out == 0 ? std::string{} : fmt::format(", {} constants left out", left_out);
  return build.finish(file.string(), fmt::format("{} tensors{}", tensors.size(), out));
}

/// Whether the name ends in "-00001-of-00002.safetensors", but not in "-00001-of-00001", which is the only file.
bool is_one_of_many(std::string_view name) {
  constexpr std::string_view pattern = "-#####-of-#####.safetensors";
  if (name.size() < pattern.size()) {
    return false;
  }
  auto const ending = name.substr(name.size() - pattern.size());
  auto const fits = [](char letter, char allowed) {
    return allowed == '#' ? letter >= '0' && letter <= '9' : letter == allowed;
  };
  return std::ranges::equal(ending, pattern, fits) && ending.substr(ending.find("-of-") + 4, 5) != "00001";
}

void refuse_one_of_many(fs::path const& file) {
  if (is_one_of_many(file.filename().string())) {
    throw ConfigError{
        fmt::format("{}: is one of several files of a model; give its folder, its config.json or its "
                    "model.safetensors.index.json",
                    file.string())};
  }
}

SourcedModel model_of_one(fs::path const& file, engine::TensorHeader const& header) {
  std::vector<Tensor> tensors;
  int left_out = 0;
  add_tensors(file, header, tensors, left_out);
  return model_of(file, tensors, left_out);
}

}  // namespace

bool is_tensor_file(fs::path const& file) {
  try {
    std::array<std::byte, 9> first{};
    bool const long_enough = InputFile{file}.read_some(0, first) == first.size();
    std::uint64_t length = 0;
    std::memcpy(&length, first.data(), sizeof length);
    return file.extension() == ".safetensors" ||
           (long_enough && length <= static_cast<std::uint64_t>(largest_text) && first.back() == std::byte{'{'});
  } catch (Unreadable const& error) {
    throw ConfigError{fmt::format("{}: {}", file.string(), error.what())};
  }
}

bool looks_like_tensor_header(Object const& object) {
  return std::ranges::any_of(object, [](config::Member const& member) {
    auto const* const entry = std::get_if<Object>(&member.node.value);
    return entry != nullptr && config::find(*entry, "dtype") != nullptr && config::find(*entry, "shape") != nullptr;
  });
}

SourcedModel model_of_tensor_file(fs::path const& file) {
  refuse_one_of_many(file);
  return model_of_one(file, header_of_file(file));
}

SourcedModel model_of_tensor_header(fs::path const& file, Object const& header) {
  refuse_one_of_many(file);
  return model_of_one(file, checked_header(file, header));
}

SourcedModel model_of_tensor_index(fs::path const& file, Object const& index) {
  auto const refuse = [&] {
    JsonObject{file, index}.refuse("weight_map", "an object from names of tensors to names of files");
  };
  auto const* const map = std::get_if<Object>(&config::find(index, "weight_map")->node.value);
  std::set<std::string> files;
  if (map == nullptr) {
    refuse();
  }
  for (auto const& member : *map) {
    auto const* const in_file = std::get_if<std::string>(&member.node.value);
    if (in_file == nullptr || in_file->empty() || escaped(*in_file) != *in_file) {  // messages print it
      refuse();
    }
    files.insert(*in_file);
  }
  std::vector<Tensor> tensors;
  int left_out = 0;
  for (auto const& name : files) {
    auto const beside = file.parent_path() / name;
    add_tensors(beside, header_of_file(beside), tensors, left_out);
  }
  return model_of(file, tensors, left_out);
}

}  // namespace zeroth::tools
