// SPDX-License-Identifier: Apache-2.0
/// A folder for one test.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace zeroth::testing {

/// A new temporary folder. The destructor removes it.
class Folder {
 public:
  Folder() : Folder(std::filesystem::temp_directory_path()) {}
  explicit Folder(std::filesystem::path const& in) {
    auto name = (in / "zeroth-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error{"mkdtemp refused " + name};
    }
    path_ = name;
  }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  /// Names of its entries, ascending, each followed by a space.
  [[nodiscard]] std::string contents() const {
    std::set<std::string> names;
    for (auto const& entry : std::filesystem::directory_iterator{path_}) {
      names.insert(entry.path().filename().string());
    }
    std::string all;
    for (auto const& name : names) {
      all += name + " ";
    }
    return all;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace zeroth::testing
