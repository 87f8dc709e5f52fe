// SPDX-License-Identifier: Apache-2.0
/// docs/config.md matches the tables of keys.
#include <fstream>
#include <iterator>

#include "config/config_support.hpp"
#include "config/foreign_keys.hpp"
#include "config/keys.hpp"
#include "support/catch.hpp"

namespace zeroth {
namespace {

std::string code(std::string_view text) { return text.empty() ? std::string{} : fmt::format("`{}`", text); }

/// " (For SGD, RMSprop.)", or nothing.
std::string of_types(std::string_view types) {
  std::string text;
  for (char const letter : types) {
    text += letter == ' ' ? ", " : std::string{letter};
  }
  return text.empty() ? text : fmt::format(" (For {}.)", text);
}

std::string table_of_keys() {
  std::string table = "| key | allowed | default | meaning |\n|---|---|---|---|\n";
  for (auto const& key : config::keys) {
    auto const standard = key.derive != nullptr ? std::string{key.why} : code(config::to_text(key.value));
    table += fmt::format("| `{}` | {} | {} | {}{} |\n", key.path, config::allowed(key), standard, key.meaning,
                         of_types(key.types));
  }
  return table;
}

std::string table_of_foreign_keys() {
  std::string table =
      "| key | type | requests nothing if it is | otherwise | reason, or alternative |\n|---|---|---|---|---|\n";
  for (auto const& key : config::foreign_rows()) {
    std::string paths{key.path};
    for (std::size_t at = 0; (at = paths.find(' ', at)) != std::string::npos; at += 4) {
      paths.replace(at, 1, "`, `");
    }
    table += fmt::format("| `{}` | {} | {} | {} | {} |\n", paths, config::allowed(key.form), code(key.nothing),
                         config::describe(key.verdict), key.why);
  }
  return table;
}

std::string table_of_aliases() {
  std::string table = "| also | is |\n|---|---|\n";
  for (auto const& alias : config::aliases) {
    table += fmt::format("| `{}` | `{}` |\n", alias.written, alias.path);
  }
  return table;
}

TEST_CASE("docs/config.md contains the tables of keys") {
  auto const path = testing::source_folder() / "docs" / "config.md";
  std::ifstream file{path};
  std::string const text{std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
  REQUIRE_FALSE(text.empty());
  for (auto const& table : {table_of_keys(), table_of_aliases(), table_of_foreign_keys()}) {
    INFO("docs/config.md lacks this table:\n" << table);
    CHECK(text.find(table) != std::string::npos);
  }
}

}  // namespace
}  // namespace zeroth
