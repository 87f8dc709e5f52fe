// SPDX-License-Identifier: Apache-2.0
/// The names that a stage file may use, and which of them was probably meant.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zeroth::config {

/// Whether a file may have something at `path`: a key, another spelling of one, a section, of Zeroth's or DeepSpeed's.
[[nodiscard]] bool is_known(std::string_view path);

/// Whether `path` is that of a section, for example "optimizer.params". The empty path is: the whole file.
[[nodiscard]] bool is_section(std::string_view path);

/// What may stand directly in `section`, in the order of the table: Zeroth's keys and sections.
[[nodiscard]] std::vector<std::string_view> names_in(std::string_view section);

/// The path that `path` is another spelling of, or itself.
[[nodiscard]] std::string canonical(std::string const& path);

/// The known path, of DeepSpeed's or Zeroth's, that `section`.`name` was probably meant to be: a near name in that
/// section, or the same name in another one. Empty if nothing is near.
[[nodiscard]] std::string nearest_path(std::string_view section, std::string_view name);

/// The path in `section` that only a few letters are missing from, of DeepSpeed's or Zeroth's; empty if there is none.
[[nodiscard]] std::string nearest_spelling(std::string_view section, std::string_view name);

}  // namespace zeroth::config
