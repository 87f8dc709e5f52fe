// SPDX-License-Identifier: Apache-2.0
/// Reads whole states from checkpoints, whichever ranks saved them.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "zeroth/checkpoint/file_reader.hpp"

namespace zeroth::testing {

/// The bytes of every state of every whole parameter: "exp_avg/first.w".
inline std::map<std::string, std::vector<std::byte>> states_in(std::filesystem::path const& checkpoint) {
  std::map<std::string, std::vector<std::byte>> states;
  checkpoint::Reader reader{checkpoint};
  auto const& contents = reader.record().contents;
  auto const found = contents.by_name();
  for (auto const& [name, parts] : found) {
    auto const& space = contents.spaces[parts.front().space];
    auto const count = space.params[parts.front().param].whole_count();
    for (std::size_t state = 0; state < space.states.size(); ++state) {
      auto& bytes = states[space.states[state].name + "/" + std::string{name}];
      bytes.resize(static_cast<std::size_t>(count * bytes_of(space.states[state].dtype)));
      reader.read(parts, state, 0, bytes);
    }
  }
  return states;
}

}  // namespace zeroth::testing
