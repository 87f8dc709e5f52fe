// SPDX-License-Identifier: Apache-2.0
/// Writes JSON without a tree of it, which for 200,000 parameters takes ten times as long. The text is that of
/// nlohmann::json::dump().
#pragma once
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace zeroth::checkpoint {

/// Appends `value` as a JSON string.
inline void append_quoted(std::string& text, std::string_view value) {
  bool const is_plain =
      std::ranges::all_of(value, [](char each) { return each >= ' ' && each <= '~' && each != '"' && each != '\\'; });
  if (!is_plain) {
    text += nlohmann::json(value).dump();
    return;
  }
  text += '"';
  text += value;
  text += '"';
}

/// Appends an array: `append(text, value)` for each of `values`.
template <class Values, class Append>
void append_array(std::string& text, Values const& values, Append const& append) {
  char separator = '[';
  for (auto const& value : values) {
    text += separator;
    append(text, value);
    separator = ',';
  }
  text += separator == '[' ? "[]" : "]";
}

}  // namespace zeroth::checkpoint
