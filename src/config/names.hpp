// SPDX-License-Identifier: Apache-2.0
/// The names that a stage file may use, and guesses which one was meant.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zeroth::config {

/// Whether a file may use `path`: a key, another spelling of one, or a section, of Zeroth's or DeepSpeed's.
[[nodiscard]] bool is_known(std::string_view path);

/// Whether `path` is a section, for example "optimizer.params". The empty path is one: the whole file.
[[nodiscard]] bool is_section(std::string_view path);

/// Zeroth's keys and sections directly below `section`, in the order of the table.
[[nodiscard]] std::vector<std::string_view> names_in(std::string_view section);

/// The path that `path` is another spelling of, or `path` itself.
[[nodiscard]] std::string canonical(std::string const& path);

/// The known path, DeepSpeed's or Zeroth's, that `section`.`name` was probably meant to be: a near name in that
/// section, or the same name in another one. Empty if nothing is near.
[[nodiscard]] std::string nearest_path(std::string_view section, std::string_view name);

/// The path in `section`, DeepSpeed's or Zeroth's, that differs by a few letters; empty if there is none.
[[nodiscard]] std::string nearest_spelling(std::string_view section, std::string_view name);

}  // namespace zeroth::config
