// SPDX-License-Identifier: Apache-2.0
/// The states of a running engine as the contents of a checkpoint.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "shard/shard_manager.hpp"
#include "zeroth/checkpoint/contents.hpp"

namespace zeroth::checkpoint {

/// A piece of a rank's states, as it comes into its file.
struct Source {
  std::byte const* data = nullptr;  ///< Null: on `disk`, from `stored` on.
  std::int64_t bytes = 0;
  std::string_view unit;
  shard::OffloadedStates const* disk = nullptr;
  device::Stored stored = {};
};

/// In the order of updates, so that those which come first are read first.
struct Arrangement {
  Contents contents;                       ///< Of the files of the ranks that share these states.
  std::vector<Source> sources;             ///< Of this rank; views of the layout.
  ById<shard::FlatId, std::size_t> reads;  ///< How many sources are read once those of a flat unit are.
};

/// The files of the ranks that share these states are `first_place` and those behind it, of `places`.
[[nodiscard]] Arrangement arrange(shard::ShardManager const& manager, int first_place, int places);

}  // namespace zeroth::checkpoint
