// SPDX-License-Identifier: Apache-2.0
/// Commands of the tool in documents, with the output shown there.
#pragma once
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace zeroth::testing {

inline std::string document(char const* name) {
  std::ifstream file{std::filesystem::path{ZEROTH_SOURCE_DIR} / name};
  return {std::istreambuf_iterator<char>{file}, {}};
}

struct Shown {
  std::string command, output;
};

/// Command lines "    zeroth ..." that are directly followed by a block of output.
inline std::vector<Shown> shown_in(std::string const& text) {
  std::string const begin = "\n    zeroth ", open = "\n\n```\n", close = "```\n";
  std::vector<Shown> shown;
  for (auto at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    auto const words = at + begin.size();
    auto const line_end = text.find('\n', words);
    if (text.compare(line_end, open.size(), open) == 0) {
      auto const block = line_end + open.size();
      shown.push_back({text.substr(words, line_end - words), text.substr(block, text.find(close, block) - block)});
    }
  }
  return shown;
}

}  // namespace zeroth::testing
