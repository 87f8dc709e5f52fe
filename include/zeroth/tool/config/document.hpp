// SPDX-License-Identifier: Apache-2.0
/// The JSON reader of stage files, machines, models and tensor headers. Its tree keeps what messages need: lines,
/// spellings, and keys given twice.
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
  double real = 0;                      ///< The value.
  std::optional<std::int64_t> integer;  ///< The value of a whole number that fits, however it is spelled: 5e8 is one.
  std::string spelling;                 ///< The text in the file.
};

struct Member;
using Array = std::vector<struct Node>;  ///< In file order.
using Object = std::vector<Member>;      ///< In file order. If a key occurs twice, only the first counts.

/// A JSON value.
struct Node {
  std::variant<std::nullptr_t, bool, Number, std::string, Array, Object> value;  ///< The value.
};

/// A member of an object.
struct Member {
  std::string name;  ///< The key.
  int line = 0;      ///< Line of the key, from 1.
  Node node;         ///< The value.
};

/// Whether a file may contain comments.
enum class Comments : std::uint8_t {
  refused,  ///< Standard JSON.
  allowed,  ///< Allows // and /* */, and commas before } and ].
};

/// Parses one JSON object, in time linear in the text. Adds a problem for each duplicate key. If the text is anything
/// but one JSON object, or is nested deeper than 32 levels, adds a problem and returns an empty object.
[[nodiscard]] ZEROTH_EXPORT Object read_document(std::string_view text, Problems& problems,
                                                 Comments comments = Comments::allowed);

/// The member with this name, or null. Searches linearly, which suits the few names that a program knows.
[[nodiscard]] ZEROTH_EXPORT Member const* find(Object const& object, std::string_view name) noexcept;

/// The value as in the file, shortened, and safe to print on a terminal.
[[nodiscard]] ZEROTH_EXPORT std::string show(Node const& node);
/// The value's type: "a string", "an object", ...
[[nodiscard]] ZEROTH_EXPORT std::string_view describe(Node const& node);
/// The text in double quotes, shortened, and safe to print on a terminal.
[[nodiscard]] ZEROTH_EXPORT std::string in_quotes(std::string_view text);
/// The name as it is, but quoted unless it is short and consists of letters, digits, _ and -.
[[nodiscard]] ZEROTH_EXPORT std::string path_part(std::string_view name);

}  // namespace zeroth::config
