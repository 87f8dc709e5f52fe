// SPDX-License-Identifier: Apache-2.0
/// JSON files as input: every message names the file, the key, the value and what is allowed.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zeroth/tool/config/document.hpp>

namespace zeroth::tools {

using config::Object;

/// One object, without comments. Throws ConfigError if the file cannot be read or is none.
[[nodiscard]] Object read_json(std::filesystem::path const& file);
[[nodiscard]] Object parse_json(std::filesystem::path const& file, std::string_view text);

/// An object of a file, and the path to it: "units[3].". Reads members; throws ConfigError for those that are wrong.
/// Refers to both, which must live as long.
class JsonObject {
 public:
  JsonObject(std::filesystem::path const& file, Object const& object, std::string path = {});

  [[nodiscard]] bool has(char const* key) const;  ///< And it is not null.
  /// A whole number from 1 to 10^9, or `otherwise` where there is none.
  [[nodiscard]] std::int64_t extent(char const* key, std::optional<std::int64_t> otherwise = {}) const;
  [[nodiscard]] double positive(char const* key) const;  ///< A number above 0.
  [[nodiscard]] bool flag(char const* key, bool otherwise) const;
  [[nodiscard]] std::string text(char const* key) const;
  [[nodiscard]] std::vector<std::string> texts(char const* key) const;   ///< None where there is none.
  [[nodiscard]] std::vector<JsonObject> objects(char const* key) const;  ///< At least one.
  [[nodiscard]] std::vector<std::int64_t> shape(char const* key) const;  ///< Extents of at least 1; [] is one element.
  /// Refuses other keys than these.
  void only(std::vector<std::string_view> const& keys) const;
  /// Throws ConfigError: the file, the key, its value, and what is allowed.
  [[noreturn]] void refuse(char const* key, std::string_view allowed) const;

 private:
  [[nodiscard]] config::Node const& member(char const* key, std::string_view allowed) const;
  [[nodiscard]] config::Node const* find(char const* key) const;  // null where there is none

  std::filesystem::path const* file_;
  Object const* object_;
  std::string path_;
};

}  // namespace zeroth::tools
