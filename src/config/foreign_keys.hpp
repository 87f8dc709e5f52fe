// SPDX-License-Identifier: Apache-2.0
/// DeepSpeed's keys without a value in Zeroth: those without effect and why, those refused and what to do instead, and
/// those that DeepSpeed has removed. With the table of keys, they are all keys that DeepSpeed 0.19.8 reads.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "zeroth/tool/config/document.hpp"

namespace zeroth::config {

/// The consequence of a value other than those of `ForeignKey::nothing`.
enum class Verdict : std::uint8_t {
  no_effect,  ///< Accepted, and noted: it changes how DeepSpeed or the program computes, not the result.
  moot,       ///< Accepted: it refines another key of its section, which decides whether it matters.
  refused,
  removed,  ///< Refused; DeepSpeed refuses the key itself.
};

/// The kinds of value that a key takes, in addition to null and "auto".
enum class Form : std::uint8_t { boolean, integer, number, text, list, object, any };

struct ForeignKey {
  std::string_view path;  ///< The key, or a whole section. In a row of the table, keys of one section with the same
                          ///< columns share a row: "section.name other third".
  Form form = Form::any;
  Verdict verdict = Verdict::refused;
  std::string_view nothing;  ///< Values, as JSON, that request what Zeroth does in any case; several joined by " or ".
                             ///< An object stands for all that have its members. null, "auto" and {} are accepted too.
  std::string_view why;  ///< No effect: the reason. Refused: what to do instead. Removed: when, and the replacement.
};

[[nodiscard]] std::span<ForeignKey const> foreign_rows() noexcept;        ///< The table.
[[nodiscard]] std::span<ForeignKey const> foreign_keys();                 ///< One entry for each key.
[[nodiscard]] ForeignKey const* find_foreign_key(std::string_view path);  ///< Null if there is none.

/// Whether DeepSpeed refuses an unknown name in this section. Elsewhere it ignores it.
[[nodiscard]] bool is_strict_section(std::string_view section) noexcept;

/// Whether `node` is one of the values of `ForeignKey::nothing`.
[[nodiscard]] bool asks_for_nothing(ForeignKey const& key, Node const& node);
/// Whether `node` has the key's form.
[[nodiscard]] bool has_form(ForeignKey const& key, Node const& node);
[[nodiscard]] std::string_view allowed(Form form);         ///< "a whole number"
[[nodiscard]] std::string_view describe(Verdict verdict);  ///< "without effect"

}  // namespace zeroth::config
