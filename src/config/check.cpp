// SPDX-License-Identifier: Apache-2.0
#include "config/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <vector>

#include "config/names.hpp"
#include "zeroth/tool/config/nearest.hpp"

namespace zeroth::config {
namespace {

Checked wrong(Node const& node, std::string_view why) { return {{}, fmt::format("{} {}", show(node), why)}; }
Checked wrong_type(Node const& node) {
  return wrong(node, is_null(node) ? "is not allowed" : fmt::format("is {}", describe(node)));
}

bool in_range(double value, Range const& range) {
  bool const enough = range.above_least ? value > range.least : value >= range.least;
  bool const few = range.below_most ? value < range.most : value <= range.most;
  return enough && few;
}

Checked check_integer(Key const& key, Node const& node) {
  auto const* const number = std::get_if<Number>(&node.value);
  if (number == nullptr) {
    return wrong_type(node);
  }
  if (std::trunc(number->real) != number->real) {
    return wrong(node, "is not a whole number");
  }
  if (!number->integer || !in_range(number->real, key.range)) {
    return wrong(node, "is out of range");
  }
  return {*number->integer, {}};
}

/// Empty if both `value` and its rounding to fp32, which the library uses, are in range.
std::string_view wrong_real(double value, Range const& range) {
  auto const rounded = std::abs(value) <= std::numeric_limits<float>::max() ? static_cast<float>(value) : INFINITY;
  if (!in_range(value, range)) {
    return "is out of range";
  }
  if (std::isinf(rounded) || (rounded == 0 && value != 0) || !in_range(rounded, range)) {
    return "is out of range once it is rounded to fp32";
  }
  return {};
}

Checked check_real(Key const& key, Node const& node) {
  auto const* const number = std::get_if<Number>(&node.value);
  if (number == nullptr) {
    return wrong_type(node);
  }
  auto const why = wrong_real(number->real, key.range);
  return why.empty() ? Checked{number->real, {}} : wrong(node, why);
}

Checked check_pair(Key const& key, Node const& node) {
  auto const* const array = std::get_if<Array>(&node.value);
  if (array == nullptr) {
    return wrong_type(node);
  }
  if (array->size() != 2) {
    return wrong(node, fmt::format("has length {}", array->size()));
  }
  Pair pair = {};
  for (std::size_t i = 0; i < pair.size(); ++i) {
    auto const item = check_real(key, (*array)[i]);
    if (!item.wrong.empty()) {
      return {{}, fmt::format("{} in {}", item.wrong, show(node))};
    }
    pair[i] = std::get<double>(item.value);
  }
  return {pair, {}};
}

Checked check_integers(Key const& key, Node const& node) {
  auto const* const array = std::get_if<Array>(&node.value);
  if (array == nullptr) {
    return wrong_type(node);
  }
  for (auto const& each : *array) {
    auto const item = check_integer(key, each);
    if (!item.wrong.empty()) {
      return {{}, fmt::format("{} in {}", item.wrong, show(node))};
    }
  }
  return {Integers{array}, {}};
}

/// Whether `word` is "every N" with N from 2.
bool is_every_so_many(std::string_view word) {
  if (!word.starts_with(every_so_many)) {
    return false;
  }
  int number = 0;
  auto const digits = word.substr(every_so_many.size());
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc{} && end == digits.data() + digits.size() && number >= 2;
}

Checked check_units(Node const& node) {
  if (auto const* const word = std::get_if<std::string>(&node.value)) {
    bool const known = *word == "all" || *word == "none" || is_every_so_many(*word);
    return known ? Checked{UnitChoice{*word, nullptr}, {}} : wrong(node, "is unknown");
  }
  auto const* const array = std::get_if<Array>(&node.value);
  if (array == nullptr) {
    return wrong_type(node);
  }
  if (array->empty()) {
    return wrong(node, "is empty");
  }
  for (auto const& each : *array) {
    auto const* const name = std::get_if<std::string>(&each.value);
    if (name == nullptr || name->empty()) {
      return {{}, fmt::format("{} in {}", name == nullptr ? wrong_type(each).wrong : "an empty name", show(node))};
    }
  }
  return {UnitChoice{{}, array}, {}};
}

std::string lower(std::string_view text) {
  std::string result{text};
  std::ranges::transform(result, result.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return result;
}

Checked check_name(Key const& key, Node const& node) {
  auto const* const text = std::get_if<std::string>(&node.value);
  if (text == nullptr) {
    return wrong_type(node);
  }
  std::vector<std::string_view> written;
  for (auto const& name : key.names) {
    if (*text == name.written || (key.any_case && lower(*text) == lower(name.written))) {
      return {name.stored, {}};
    }
    written.push_back(name.written);
  }
  if (has_word(lower(key.removed_names), lower(*text))) {
    return wrong(node, "has been removed from DeepSpeed 0.19");
  }
  if (has_word(lower(key.foreign_names), lower(*text))) {
    return wrong(node, "is DeepSpeed's, and Zeroth does not have it");
  }
  auto const near = nearest(*text, written);
  return wrong(node, near.empty() ? "is unknown" : fmt::format("is unknown (did you mean \"{}\"?)", near));
}

}  // namespace

Checked check(Key const& key, Node const& node) {
  switch (key.kind) {
    case Kind::boolean: {
      auto const* const value = std::get_if<bool>(&node.value);
      return value == nullptr ? wrong_type(node) : Checked{*value, {}};
    }
    case Kind::integer: return check_integer(key, node);
    case Kind::real: return check_real(key, node);
    case Kind::pair: return check_pair(key, node);
    case Kind::name: return check_name(key, node);
    case Kind::text: {
      auto const* const value = std::get_if<std::string>(&node.value);
      return value == nullptr ? wrong_type(node) : Checked{std::string_view{*value}, {}};
    }
    case Kind::integers: return check_integers(key, node);
    case Kind::units: return check_units(node);
  }
  return {};
}

bool is_auto(Node const& node) {
  auto const* const text = std::get_if<std::string>(&node.value);
  return text != nullptr && *text == "auto";
}
bool is_null(Node const& node) { return std::holds_alternative<std::nullptr_t>(node.value); }

}  // namespace zeroth::config
