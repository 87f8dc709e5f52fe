// SPDX-License-Identifier: Apache-2.0
/// DeepSpeed 0.19's keys that Zeroth does not have, so that a file that uses one is told so and told what to do.
#pragma once
#include <span>
#include <string_view>

namespace zeroth::config {

struct ForeignKey {
  std::string_view path;      ///< Of a value, or of a section as a whole.
  std::string_view accepted;  ///< Values, as JSON, that ask for nothing but what Zeroth does; several joined by " or ".
                              ///< An object stands for all that have its members. Beside them, null, "auto" and {}.
  std::string_view advice;    ///< What to do instead, where there is something.
};

[[nodiscard]] std::span<ForeignKey const> foreign_keys() noexcept;
[[nodiscard]] ForeignKey const* find_foreign_key(std::string_view path) noexcept;  ///< Null if there is none.

}  // namespace zeroth::config
