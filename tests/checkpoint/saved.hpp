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
        bytes.resize(static_cast<std::size_t>(param.count * bytes_of(state.dtype)));
        reader.read(space, state, param.at, bytes);
      }
    }
  }
  return states;
}

}  // namespace zeroth::testing
