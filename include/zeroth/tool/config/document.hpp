// SPDX-License-Identifier: Apache-2.0
/// The one reader of JSON, for stage files, machines, models and the headers of tensors: text as a tree that remembers
/// what a message about it needs: lines, spellings, and keys given twice.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "zeroth/core/export.hpp"
#include "zeroth/tool/config/problem.hpp"

namespace zeroth::config {

/// A number.
struct Number {
  double real = 0;                      ///< Its value.
  std::optional<std::int64_t> integer;  ///< For whole numbers that fit, however they are spelled: 5e8 is one.
  std::string spelling;                 ///< As in the file.
};

struct Member;
using Array = std::vector<struct Node>;  ///< In the order of the file.
using Object = std::vector<Member>;      ///< In the order of the file; of a key given twice only the first.

/// Any value.
struct Node {
  std::variant<std::nullptr_t, bool, Number, std::string, Array, Object> value;  ///< What it is.
};

/// Of an object.
struct Member {
  std::string name;  ///< The key.
  int line = 0;      ///< Of the key, from 1.
  Node node;         ///< The value.
};

/// Whether a file may have them.
enum class Comments : std::uint8_t {
  refused,  ///< As JSON has it.
  allowed,  ///< // and /* */; and commas before } and ]
};

/// Reads one JSON object, in time linear in the text. Adds a problem for each key given twice, and one for a text that
/// is not a JSON object and nothing else, or is nested deeper than 32 levels; the result is then empty.
[[nodiscard]] ZEROTH_EXPORT Object read_document(std::string_view text, Problems& problems,
                                                 Comments comments = Comments::allowed);

/// Null if there is none. Looks at one after the other: for the few names that a program knows.
[[nodiscard]] ZEROTH_EXPORT Member const* find(Object const& object, std::string_view name) noexcept;

/// As in the file, shortened, safe for a terminal.
[[nodiscard]] ZEROTH_EXPORT std::string show(Node const& node);
/// "a string", "an object", ...
[[nodiscard]] ZEROTH_EXPORT std::string_view describe(Node const& node);
/// In double quotes, shortened, safe for a terminal.
[[nodiscard]] ZEROTH_EXPORT std::string in_quotes(std::string_view text);
/// As it is, but quoted if it could pass for more.
[[nodiscard]] ZEROTH_EXPORT std::string path_part(std::string_view name);

}  // namespace zeroth::config
