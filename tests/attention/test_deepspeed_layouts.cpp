// SPDX-License-Identifier: Apache-2.0
/// Layouts without random blocks are those of DeepSpeed 0.18.5, whose code made deepspeed_layouts.txt.
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "zeroth/attention/block_layout.hpp"

namespace zeroth::testing {
namespace {

using Words = std::map<std::string, std::string>;

Words words_of(std::string const& line) {
  Words words;
  std::istringstream in{line};
  for (std::string word; in >> word;) {
    auto const equals = word.find('=');
    words[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return words;
}

std::vector<std::int64_t> list_of(std::string const& text) {
  std::vector<std::int64_t> list;
  std::istringstream in{text};
  for (std::string item; std::getline(in, item, ',');) {
    list.push_back(std::stoll(item));
  }
  return list;
}

SparseMode mode_named(std::string const& name) {
  for (auto const mode : sparse_modes) {
    if (name_of(mode) == name) {
      return mode;
    }
  }
  FAIL("no mode " << name);
  return {};
}

/// Values that the table leaves out keep the defaults of SparseAttention.
SparseAttention parameters_of(Words words) {
  SparseAttention p;
  std::map<std::string, std::int64_t*> const numbers{
      {"num_local_blocks", &p.num_local_blocks},
      {"num_global_blocks", &p.num_global_blocks},
      {"num_different_global_patterns", &p.num_different_global_patterns},
      {"num_random_blocks", &p.num_random_blocks},
      {"num_sliding_window_blocks", &p.num_sliding_window_blocks}};
  std::map<std::string, std::vector<std::int64_t>*> const lists{
      {"local_window_blocks", &p.local_window_blocks},
      {"global_block_indices", &p.global_block_indices},
      {"global_block_end_indices", &p.global_block_end_indices}};
  p.mode = mode_named(words["mode"]);
  p.different_layout_per_head = words["different_layout_per_head"] == "true";
  p.horizontal_global_attention = words["horizontal_global_attention"] == "true";
  if (words["attention"] == "unidirectional") {
    p.attention = AttentionDirection::unidirectional;
  }
  for (auto const& [name, text] : words) {
    if (auto const number = numbers.find(name); number != numbers.end()) {
      *number->second = std::stoll(text);
    } else if (auto const list = lists.find(name); list != lists.end()) {
      *list->second = list_of(text);
    }
  }
  return p;
}

}  // namespace

TEST_CASE("layouts are DeepSpeed's, without blocks behind the diagonal where they are unidirectional") {
  std::ifstream file{ZEROTH_SOURCE_DIR "/tests/attention/deepspeed_layouts.txt"};
  int cases = 0;
  int later = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') && line.find(' ') == 1) {
      continue;  // a comment
    }
    INFO(line);
    auto words = words_of(line);
    auto const parameters = parameters_of(words);
    auto const heads = std::stoll(words.at("heads"));
    auto const blocks = std::stoll(words.at("blocks"));
    BlockLayout const layout{parameters, heads, blocks * parameters.block};
    REQUIRE(layout.blocks() == blocks);
    for (std::int64_t head = 0; head < (parameters.different_layout_per_head ? heads : 1); ++head) {
      for (std::int64_t row = 0; row < blocks; ++row) {
        std::string expected;
        REQUIRE(std::getline(file, expected));
        std::string read;
        for (std::int64_t column = 0; column < blocks; ++column) {
          read += layout.has(head, row, column) ? '#' : '.';
          auto& bit = expected.at(static_cast<std::size_t>(column));
          if (layout.causal() && column > row && bit == '#') {
            bit = '.';
            ++later;
          }
        }
        INFO("head " << head << ", row " << row);
        CHECK(read == expected);
      }
    }
    ++cases;
  }
  CHECK(cases == 73);
  CHECK(later > 0);  // otherwise the file's comment is wrong
}

}  // namespace zeroth::testing
