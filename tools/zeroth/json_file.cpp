#include "json_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include <zeroth/core/error.hpp>

#include "config/names.hpp"

namespace zeroth::tools {
namespace {

constexpr std::size_t shown_limit = 60;  // characters of a value that a message repeats
constexpr std::int64_t largest_extent = 1'000'000'000;

std::string show(Json const& value) {
  auto text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > shown_limit) {
    text.resize(shown_limit);
    text += "...";
  }
  return text;
}

}  // namespace

std::string read_text(std::filesystem::path const& file) {
  std::ifstream in{file, std::ios::binary};
  if (!in) {
    throw ConfigError{fmt::format("{}: cannot be opened: {}", file.string(), std::strerror(errno))};
  }
  return {std::istreambuf_iterator<char>{in}, {}};
}

Json parse_json(std::filesystem::path const& file, std::string_view text) {
  try {
    auto json = Json::parse(text);
    if (!json.is_object()) {
      throw ConfigError{fmt::format("{}: holds {}; allowed: one JSON object", file.string(), show(json))};
    }
    return json;
  } catch (Json::parse_error const& error) {
    std::string_view const what = error.what();  // behind the library's own number of it
    throw ConfigError{fmt::format("{}: is no JSON: {}", file.string(), what.substr(what.find("] ") + 2))};
  }
}

Json read_json(std::filesystem::path const& file) { return parse_json(file, read_text(file)); }

JsonObject::JsonObject(std::filesystem::path file, Json const& json, std::string path)
    : file_{std::move(file)}, json_{&json}, path_{std::move(path)} {}

bool JsonObject::has(char const* key) const { return json_->contains(key) && !(*json_)[key].is_null(); }

void JsonObject::refuse(char const* key, std::string_view allowed) const {
  auto const is = json_->contains(key) ? fmt::format("is {}", show((*json_)[key])) : std::string{"is missing"};
  throw ConfigError{fmt::format("{}: {}{} {}; allowed: {}", file_.string(), path_, key, is, allowed)};
}

Json const& JsonObject::member(char const* key, std::string_view allowed) const {
  if (!json_->contains(key)) {
    refuse(key, allowed);
  }
  return (*json_)[key];
}

std::int64_t JsonObject::extent(char const* key, std::optional<std::int64_t> otherwise) const {
  if (!has(key) && otherwise) {
    return *otherwise;
  }
  auto const allowed = fmt::format("a whole number from 1 to {}", largest_extent);
  auto const& value = member(key, allowed);
  if (!value.is_number_integer() || value < 1 || value > largest_extent) {
    refuse(key, allowed);
  }
  return value.get<std::int64_t>();
}

bool JsonObject::flag(char const* key, bool otherwise) const {
  if (!has(key)) {
    return otherwise;
  }
  if (!(*json_)[key].is_boolean()) {
    refuse(key, "true or false");
  }
  return (*json_)[key].get<bool>();
}

std::string JsonObject::text(char const* key) const {
  auto const& value = member(key, "a string");
  if (!value.is_string() || value.get_ref<std::string const&>().empty()) {
    refuse(key, "a string that is not empty");
  }
  return value.get<std::string>();
}

std::vector<std::string> JsonObject::texts(char const* key) const {
  if (!has(key)) {
    return {};
  }
  auto const& list = (*json_)[key];
  if (!list.is_array() || !std::ranges::all_of(list, [](Json const& item) { return item.is_string(); })) {
    refuse(key, "an array of strings");
  }
  return list.get<std::vector<std::string>>();
}

std::vector<JsonObject> JsonObject::objects(char const* key) const {
  auto const& list = member(key, "an array of objects");
  if (!list.is_array() || list.empty() ||
      !std::ranges::all_of(list, [](Json const& item) { return item.is_object(); })) {
    refuse(key, "an array of at least one object, and nothing else");
  }
  std::vector<JsonObject> objects;
  for (auto const& item : list) {
    objects.emplace_back(file_, item, fmt::format("{}{}[{}].", path_, key, objects.size()));
  }
  return objects;
}

std::vector<std::int64_t> JsonObject::shape(char const* key) const {
  constexpr std::string_view allowed = "an array of extents, whole numbers of at least 1";
  auto const& list = member(key, allowed);
  auto const is_extent = [](Json const& item) {
    return item.is_number_integer() && item >= 1 && item <= std::int64_t{1} << 53U;
  };
  if (!list.is_array() || !std::ranges::all_of(list, is_extent)) {
    refuse(key, allowed);
  }
  return list.get<std::vector<std::int64_t>>();
}

void JsonObject::only(std::vector<std::string_view> const& keys) const {
  for (auto const& [key, value] : json_->items()) {
    if (std::ranges::find(keys, std::string_view{key}) == keys.end()) {
      auto const near = config::nearest(key, keys);
      throw ConfigError{fmt::format("{}: {}{} is an unknown key, with value {}; {}allowed: {}", file_.string(), path_,
                                    key, show(value), near.empty() ? "" : fmt::format("did you mean {}? ", near),
                                    fmt::join(keys, ", "))};
    }
  }
}

}  // namespace zeroth::tools
