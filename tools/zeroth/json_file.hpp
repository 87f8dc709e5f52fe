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

/// Reads one object, without comments. Throws ConfigError if the file cannot be read or does not contain one.
[[nodiscard]] Object read_json(std::filesystem::path const& file);
[[nodiscard]] Object parse_json(std::filesystem::path const& file, std::string_view text);

/// An object of a file, and the path to it, such as "units[3].". Reads members, and throws ConfigError for invalid
/// ones. Refers to both arguments, which must outlive it.
class JsonObject {
 public:
  JsonObject(std::filesystem::path const& file, Object const& object, std::string path = {});

  [[nodiscard]] bool has(char const* key) const;  ///< Whether the member exists and is not null.
  /// A whole number from 1 to 10^9, or `otherwise` if the member is missing.
  [[nodiscard]] std::int64_t extent(char const* key, std::optional<std::int64_t> otherwise = {}) const;
  [[nodiscard]] double positive(char const* key) const;  ///< A number above 0.
  [[nodiscard]] bool flag(char const* key, bool otherwise) const;
  [[nodiscard]] std::string text(char const* key) const;
  [[nodiscard]] std::vector<std::string> texts(char const* key) const;   ///< Empty if the member is missing.
  [[nodiscard]] std::vector<JsonObject> objects(char const* key) const;  ///< At least one.
  [[nodiscard]] std::vector<std::int64_t> shape(char const* key) const;  ///< Extents of at least 1; [] is one element.
  /// Throws ConfigError for keys other than these.
  void only(std::vector<std::string_view> const& keys) const;
  /// Throws ConfigError, which names the file, the key, its value, and what is allowed.
  [[noreturn]] void refuse(char const* key, std::string_view allowed) const;

 private:
  [[nodiscard]] config::Node const& member(char const* key, std::string_view allowed) const;
  [[nodiscard]] config::Node const* find(char const* key) const;  // null if missing

  std::filesystem::path const* file_;
  Object const* object_;
  std::string path_;
};

}  // namespace zeroth::tools
