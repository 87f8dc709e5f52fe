// SPDX-License-Identifier: Apache-2.0
/// Common parts of the tests of model sources.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "model_source.hpp"
#include "support/child.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::tools {

/// A folder for files that a test writes.
class Files {
 public:
  std::filesystem::path write(std::string const& name, std::string_view text) const {
    auto const file = folder_.path() / name;
    std::ofstream{file, std::ios::binary} << text;
    return file;
  }
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return folder_.path(); }

 private:
  testing::Folder folder_;
};

inline SourcedModel read(std::filesystem::path const& path) { return read_model({.model = path.string()}); }
inline std::int64_t count_of(SourcedModel const& source) { return source.model.description().count; }

inline std::vector<std::string> unit_names(SourcedModel const& source) {
  std::vector<std::string> names;
  for (auto const& unit : source.model.description().units) {
    names.push_back(unit.name);
  }
  return names;
}
/// Elements of the parameters that a unit makes.
inline std::int64_t count_of_unit(SourcedModel const& source, std::size_t unit) {
  std::int64_t count = 0;
  for (auto const param : source.model.description().units[id_at<UnitId>(unit)].params) {
    count += source.model.description().params[param].count;
  }
  return count;
}
/// The error for `path`, without the folder.
inline std::string refusal_of(std::filesystem::path const& path) {
  auto message = testing::thrown<ConfigError>([&] { return read(path); });
  auto const folder = path.parent_path().string() + "/";
  for (auto at = message.find(folder); at != std::string::npos; at = message.find(folder)) {
    message.erase(at, folder.size());
  }
  return message;
}
inline bool contains(std::string const& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace zeroth::tools
