// SPDX-License-Identifier: Apache-2.0
#include "json_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include <zeroth/core/error.hpp>
#include <zeroth/tool/config/nearest.hpp>
#include <zeroth/tool/core/input_file.hpp>

namespace zeroth::tools {
namespace {

using config::Array;
using config::Node;

constexpr std::int64_t largest_extent = 1'000'000'000;
constexpr std::int64_t largest_shape_extent = std::int64_t{1} << 53U;

std::optional<std::int64_t> whole_number_of(Node const& node, std::int64_t most) {
  auto const* const number = std::get_if<config::Number>(&node.value);
  bool const fits = number != nullptr && number->integer && *number->integer >= 1 && *number->integer <= most;
  return fits ? number->integer : std::nullopt;
}

bool is_null(Node const& node) { return std::holds_alternative<std::nullptr_t>(node.value); }

}  // namespace

Object parse_json(std::filesystem::path const& file, std::string_view text) {
  config::Problems problems;
  auto object = config::read_document(text, problems, config::Comments::refused);
  config::throw_if_any(file.string(), problems);
  return object;
}

Object read_json(std::filesystem::path const& file) {
  try {
    return parse_json(file, read_text(file));
  } catch (Unreadable const& error) {
    throw ConfigError{fmt::format("{}: {}", file.string(), error.what())};
  }
}

JsonObject::JsonObject(std::filesystem::path const& file, Object const& object, std::string path)
    : file_{&file}, object_{&object}, path_{std::move(path)} {}

Node const* JsonObject::find(char const* key) const {
  auto const* const found = config::find(*object_, key);
  return found == nullptr ? nullptr : &found->node;
}

bool JsonObject::has(char const* key) const {
  auto const* const node = find(key);
  return node != nullptr && !is_null(*node);
}

void JsonObject::refuse(char const* key, std::string_view allowed) const {
  auto const* const node = find(key);
  auto const is = node == nullptr ? std::string{"is missing"} : fmt::format("is {}", show(*node));
  throw ConfigError{fmt::format("{}: {}{} {}; allowed: {}", file_->string(), path_, key, is, allowed)};
}

Node const& JsonObject::member(char const* key, std::string_view allowed) const {
  auto const* const node = find(key);
  if (node == nullptr) {
    refuse(key, allowed);
  }
  return *node;
}

std::int64_t JsonObject::extent(char const* key, std::optional<std::int64_t> otherwise) const {
  if (!has(key) && otherwise) {
    return *otherwise;
  }
  auto const allowed = fmt::format("a whole number from 1 to {}", largest_extent);
  auto const value = whole_number_of(member(key, allowed), largest_extent);
  if (!value) {
    refuse(key, allowed);
  }
  return *value;
}

double JsonObject::positive(char const* key) const {
  constexpr std::string_view allowed = "a number above 0";
  auto const* const number = std::get_if<config::Number>(&member(key, allowed).value);
  if (number == nullptr || !(number->real > 0)) {
    refuse(key, allowed);
  }
  return number->real;
}

bool JsonObject::flag(char const* key, bool otherwise) const {
  if (!has(key)) {
    return otherwise;
  }
  auto const* const value = std::get_if<bool>(&find(key)->value);
  if (value == nullptr) {
    refuse(key, "true or false");
  }
  return *value;
}

std::string JsonObject::text(char const* key) const {
  auto const* const value = std::get_if<std::string>(&member(key, "a string").value);
  if (value == nullptr || value->empty()) {
    refuse(key, "a string that is not empty");
  }
  return *value;
}

std::vector<std::string> JsonObject::texts(char const* key) const {
  std::vector<std::string> texts;
  if (!has(key)) {
    return texts;
  }
  auto const* const list = std::get_if<Array>(&find(key)->value);
  if (list == nullptr) {
    refuse(key, "an array of strings");
  }
  for (auto const& item : *list) {
    auto const* const text = std::get_if<std::string>(&item.value);
    if (text == nullptr) {
      refuse(key, "an array of strings");
    }
    texts.push_back(*text);
  }
  return texts;
}

std::vector<JsonObject> JsonObject::objects(char const* key) const {
  auto const* const list = std::get_if<Array>(&member(key, "an array of objects").value);
  auto const is_object = [](Node const& item) { return std::holds_alternative<Object>(item.value); };
  if (list == nullptr || list->empty() || !std::ranges::all_of(*list, is_object)) {
    refuse(key, "an array of at least one object, and nothing else");
  }
  std::vector<JsonObject> objects;
  for (auto const& item : *list) {
    objects.emplace_back(*file_, std::get<Object>(item.value), fmt::format("{}{}[{}].", path_, key, objects.size()));
  }
  return objects;
}

std::vector<std::int64_t> JsonObject::shape(char const* key) const {
  constexpr std::string_view allowed = "an array of extents, whole numbers of at least 1";
  auto const* const list = std::get_if<Array>(&member(key, allowed).value);
  std::vector<std::int64_t> extents;
  if (list == nullptr) {
    refuse(key, allowed);
  }
  for (auto const& item : *list) {
    auto const extent = whole_number_of(item, largest_shape_extent);
    if (!extent) {
      refuse(key, allowed);
    }
    extents.push_back(*extent);
  }
  return extents;
}

void JsonObject::only(std::vector<std::string_view> const& keys) const {
  for (auto const& member : *object_) {
    if (std::ranges::find(keys, std::string_view{member.name}) == keys.end()) {
      auto const near = config::nearest(member.name, keys);
      throw ConfigError{fmt::format("{}: {}{} is an unknown key, with value {}; {}allowed: {}", file_->string(), path_,
                                    config::path_part(member.name), show(member.node),
                                    near.empty() ? "" : fmt::format("did you mean {}? ", near), fmt::join(keys, ", "))};
    }
  }
}

}  // namespace zeroth::tools
