/// JSON files as input: every message names the file, the key, the value and what is allowed.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zeroth::tools {

using Json = nlohmann::ordered_json;

/// The whole file. Throws ConfigError if it cannot be read.
[[nodiscard]] std::string read_text(std::filesystem::path const& file);
/// One object. Throws ConfigError if it is none.
[[nodiscard]] Json read_json(std::filesystem::path const& file);
[[nodiscard]] Json parse_json(std::filesystem::path const& file, std::string_view text);

/// An object of a file, and the path to it: "units[3].". Reads members; throws ConfigError for those that are wrong.
class JsonObject {
 public:
  JsonObject(std::filesystem::path file, Json const& json, std::string path = {});

  [[nodiscard]] bool has(char const* key) const;  ///< And it is not null.
  /// A whole number from 1 to 10^9, or `otherwise` where there is none.
  [[nodiscard]] std::int64_t extent(char const* key, std::optional<std::int64_t> otherwise = {}) const;
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
  [[nodiscard]] Json const& member(char const* key, std::string_view allowed) const;

  std::filesystem::path file_;
  Json const* json_;
  std::string path_;
};

}  // namespace zeroth::tools
