#include "tensor_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include <zeroth/core/error.hpp>

#include "model_builder.hpp"
#include "tensor_shape.hpp"

namespace zeroth::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_header = 100'000'000;  // what the format's own reader accepts

struct Tensor {
  std::string name;
  FoldedShape shape;
};

/// Where a tensor belongs: embeddings, then layers by what stands before the index and by the index, then the rest.
struct Place {
  int part = 0;
  std::string stem;
  std::int64_t index = 0;
  friend auto operator<=>(Place const&, Place const&) = default;
};

bool is_embedding(std::string_view name) {
  return std::ranges::any_of(std::array{"embed", "wte", "wpe"},
                             [&](char const* part) { return name.find(part) != std::string_view::npos; });
}

/// The first part of the name that is a number is the layer's.
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

/// Masks and tables that models of transformers kept among their weights.
bool is_constant(std::string_view name, FoldedShape const& shape) {
  return (name.ends_with(".attn.bias") && shape.dimensions == 4) || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

bool is_floating(std::string_view dtype) { return dtype.starts_with('F') || dtype.starts_with("BF"); }

/// Of one header, those that are trained. `left_out` counts the others.
void add_tensors(fs::path const& file, Json const& header, std::vector<Tensor>& tensors, int& left_out) {
  for (auto const& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      continue;
    }
    if (!entry.is_object()) {
      JsonObject{file, header}.refuse(name.c_str(), "an object with dtype and shape");
    }
    JsonObject const tensor{file, entry, name + "."};
    auto const shape = folded(tensor.shape("shape"));
    if (!shape) {
      tensor.refuse("shape", too_large);
    }
    if (is_floating(tensor.text("dtype")) && !is_constant(name, *shape)) {
      tensors.push_back({name, *shape});
    } else {
      ++left_out;
    }
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

/// A name that ends in "-00001-of-00002.safetensors", but not one that is the only one ("-00001-of-00001").
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

/// The length that a safetensors file begins with, or nothing if it is too short to have one.
std::optional<std::uint64_t> length_of_header(std::istream& in) {
  std::array<char, 8> bytes{};
  in.read(bytes.data(), bytes.size());
  return in ? std::optional{std::bit_cast<std::uint64_t>(bytes)} : std::nullopt;
}

}  // namespace

bool is_tensor_file(fs::path const& file) {
  std::ifstream in{file, std::ios::binary};
  auto const length = length_of_header(in);
  return file.extension() == ".safetensors" || (length && *length <= largest_header && in.get() == '{');
}

Json read_tensor_header(fs::path const& file) {
  std::ifstream in{file, std::ios::binary};
  if (!in) {
    throw ConfigError{fmt::format("{}: cannot be opened: {}", file.string(), std::strerror(errno))};
  }
  auto const length = length_of_header(in);
  if (!length || *length > largest_header) {
    throw ConfigError{fmt::format(
        "{}: is no safetensors file: {}; allowed: a header of at most {} bytes", file.string(),
        length ? fmt::format("its header would have {} bytes", *length) : std::string{"it is shorter than 8 bytes"},
        largest_header)};
  }
  std::string text(*length, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in) {
    throw ConfigError{fmt::format("{}: ends before its header of {} bytes does", file.string(), *length)};
  }
  return parse_json(file, text);
}

bool looks_like_tensor_header(Json const& json) {
  return std::ranges::any_of(
      json, [](Json const& entry) { return entry.is_object() && entry.contains("dtype") && entry.contains("shape"); });
}

SourcedModel model_of_tensor_header(fs::path const& file, Json const& header) {
  if (is_one_of_many(file.filename().string())) {
    throw ConfigError{
        fmt::format("{}: is one of several files of a model; give its folder, its config.json or its "
                    "model.safetensors.index.json",
                    file.string())};
  }
  std::vector<Tensor> tensors;
  int left_out = 0;
  add_tensors(file, header, tensors, left_out);
  return model_of(file, tensors, left_out);
}

SourcedModel model_of_tensor_index(fs::path const& file, Json const& index) {
  auto const& map = index["weight_map"];
  auto const names_file = [](Json const& entry) {
    return entry.is_string() && !entry.get_ref<std::string const&>().empty();
  };
  if (!map.is_object() || !std::ranges::all_of(map, names_file)) {
    JsonObject{file, index}.refuse("weight_map", "an object from names of tensors to names of files");
  }
  std::set<std::string> files;
  for (auto const& [tensor, in_file] : map.items()) {
    files.insert(in_file.get<std::string>());
  }
  std::vector<Tensor> tensors;
  int left_out = 0;
  for (auto const& name : files) {
    auto const beside = file.parent_path() / name;
    add_tensors(beside, read_tensor_header(beside), tensors, left_out);
  }
  return model_of(file, tensors, left_out);
}

}  // namespace zeroth::tools
