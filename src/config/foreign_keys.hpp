// SPDX-License-Identifier: Apache-2.0
/// DeepSpeed's keys that Zeroth has no value of its own for: which are without effect here and why, which are refused
/// and what to do instead, and which DeepSpeed has removed. With the table of keys, all that DeepSpeed 0.19.8 reads.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "zeroth/tool/config/document.hpp"

namespace zeroth::config {

/// What becomes of a value that asks for something else than `ForeignKey::nothing`.
enum class Verdict : std::uint8_t {
  no_effect,  ///< Accepted, and noted: it changes how DeepSpeed computes, or what the program does, and not what.
  moot,       ///< Accepted: it says how to do what another key of its section asks for, or does not.
  refused,
  removed,  ///< Refused; DeepSpeed refuses the key itself.
};

/// Which values a key takes, beside null and "auto".
enum class Form : std::uint8_t { boolean, integer, number, text, list, object, any };

struct ForeignKey {
  std::string_view path;  ///< Of a value, or of a section as a whole. In a row of the table, keys of one section that
                          ///< share all else: "section.name other third".
  Form form = Form::any;
  Verdict verdict = Verdict::refused;
  std::string_view nothing;  ///< Values, as JSON, that ask for nothing but what Zeroth does; several joined by " or ".
                             ///< An object stands for all that have its members. Beside them, null, "auto" and {}.
  std::string_view why;      ///< No effect: the reason. Refused: what to do instead. Removed: when, and what instead.
};

[[nodiscard]] std::span<ForeignKey const> foreign_rows() noexcept;        ///< The table.
[[nodiscard]] std::span<ForeignKey const> foreign_keys();                 ///< One entry for each key.
[[nodiscard]] ForeignKey const* find_foreign_key(std::string_view path);  ///< Null if there is none.

/// Whether DeepSpeed refuses an unknown name in this section. Elsewhere it ignores it.
[[nodiscard]] bool is_strict_section(std::string_view section) noexcept;

/// Whether `node` is one of the values that ask for nothing.
[[nodiscard]] bool asks_for_nothing(ForeignKey const& key, Node const& node);
/// Whether `node` has the key's form.
[[nodiscard]] bool has_form(ForeignKey const& key, Node const& node);
[[nodiscard]] std::string_view allowed(Form form);         ///< "a whole number"
[[nodiscard]] std::string_view describe(Verdict verdict);  ///< "without effect"

}  // namespace zeroth::config
