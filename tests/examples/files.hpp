// SPDX-License-Identifier: Apache-2.0
/// Files for one test.
#pragma once
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "support/folder.hpp"

namespace gpt {

/// A folder with files in it.
class Folder : public zeroth::testing::Folder {
 public:
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    auto const file = path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file, std::ios::binary} << text;
    return file;
  }
};

/// Something to train on: "0 1 4 9 ...".
inline std::string squares() {
  std::string text;
  for (int i = 0; i < 600; ++i) {
    text += std::to_string(i * i) + (i % 7 == 0 ? "\n" : " ");
  }
  return text;
}

inline std::string read_all(std::filesystem::path const& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

}  // namespace gpt
