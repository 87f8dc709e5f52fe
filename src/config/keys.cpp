// SPDX-License-Identifier: Apache-2.0
#include "config/keys.hpp"

#include <fmt/format.h>

#include <vector>

namespace zeroth::config {
namespace {

std::string bounds(Range const& range) {
  bool const bounded = range.most != unbounded;
  if (range.above_least || range.below_most) {
    auto const least = fmt::format("{} {}", range.above_least ? "above" : "of at least", range.least);
    return bounded ? fmt::format("{} and {} {}", least, range.below_most ? "below" : "at most", range.most) : least;
  }
  return bounded ? fmt::format("from {} to {}", range.least, range.most) : fmt::format("of at least {}", range.least);
}

/// "a", "b" or "c": the names in their stored spelling.
std::string either(std::span<Name const> names) {
  std::vector<std::string_view> listed;
  for (auto const& name : names) {
    if (std::ranges::find(listed, name.stored) == listed.end()) {
      listed.push_back(name.stored);
    }
  }
  std::string text;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    text += fmt::format("{}\"{}\"", i == 0 ? "" : (i + 1 == listed.size() ? " or " : ", "), listed[i]);
  }
  return text;
}

}  // namespace

std::vector<std::int64_t> Integers::copy() const {
  std::vector<std::int64_t> all;
  for (auto const& item : items == nullptr ? Array{} : *items) {
    all.push_back(*std::get<Number>(item.value).integer);
  }
  return all;
}

std::vector<std::string> UnitChoice::copy() const {
  std::vector<std::string> all;
  for (auto const& item : names == nullptr ? Array{} : *names) {
    all.push_back(std::get<std::string>(item.value));
  }
  return all;
}

std::string allowed(Key const& key) {
  std::string_view const automatic = key.automatic ? ", or \"auto\"" : "";
  switch (key.kind) {
    case Kind::boolean: return "true or false";
    case Kind::integer: return fmt::format("an integer {}{}", bounds(key.range), automatic);
    case Kind::real: return fmt::format("a number {}", bounds(key.range));
    case Kind::pair: return fmt::format("an array of two numbers, each {}", bounds(key.range));
    case Kind::name: return either(key.names);
    case Kind::text: return "a string";
    case Kind::integers: return fmt::format("an array of integers, each {}", bounds(key.range));
    case Kind::units: return R"("all", "none", "every N" with N from 2, or an array of names of units)";
  }
  return {};
}

}  // namespace zeroth::config
