// SPDX-License-Identifier: Apache-2.0
#include "zeroth/checkpoint/rank_state.hpp"

#include <fmt/format.h>

#include "zeroth/checkpoint/file_reader.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::checkpoint {

std::vector<std::byte> read_rank_state(std::filesystem::path const& checkpoint, SavedRank const& rank) {
  Reader reader{checkpoint};
  auto const& contents = reader.record().contents;
  auto const ranks = contents.ranks();
  auto const refuse = [&](std::string const& reason) {
    throw ContractError{fmt::format("read_rank_state() of checkpoint {}: {}", checkpoint.string(), reason)};
  };
  if (contents.rank_states.empty()) {
    refuse("it was saved without SaveOptions::rank_state");
  }
  auto const expect = [&](char const* axis, int index, int count) {
    if (index < 0 || index >= count) {
      refuse(
          fmt::format("{} is {}; allowed: 0 to {}, as it was saved by {} data-parallel ranks, {} tensor-parallel "
                      "ranks and {} stages",
                      axis, index, count - 1, ranks.data, ranks.tensor, ranks.stages));
    }
  };
  expect("data", rank.data, ranks.data);
  expect("tensor", rank.tensor, ranks.tensor);
  expect("stage", rank.stage, ranks.stages);
  return reader.rank_state((rank.stage * ranks.tensor + rank.tensor) * ranks.data + rank.data);
}

}  // namespace zeroth::checkpoint
