// SPDX-License-Identifier: Apache-2.0
/// Checkpoints as tests look at them: whole states, whoever has saved them.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "zeroth/checkpoint/file_reader.hpp"

namespace zeroth::testing {

/// The bytes of every state of every parameter: "exp_avg/first.w".
inline std::map<std::string, std::vector<std::byte>> states_in(std::filesystem::path const& checkpoint) {
  std::map<std::string, std::vector<std::byte>> states;
  checkpoint::Reader reader{checkpoint};
  for (auto const& space : reader.record().contents.spaces) {
    for (auto const& state : space.states) {
      for (auto const& param : space.params) {
        auto& bytes = states[state.name + "/" + param.name];
        auto const pieces = checkpoint::pieces_of(space, state, param.at, param.count);
        std::vector<std::size_t> begins;
        std::size_t end = 0;
        for (auto const& piece : pieces) {
          begins.push_back(end);
          end += static_cast<std::size_t>(piece.bytes);
        }
        bytes.resize(end);
        reader.read(pieces, [&](std::size_t index, std::int64_t offset, std::span<std::byte const> part) {
          std::ranges::copy(part, bytes.begin() + static_cast<std::ptrdiff_t>(begins[index]) + offset);
        });
      }
    }
  }
  return states;
}

}  // namespace zeroth::testing
