// SPDX-License-Identifier: Apache-2.0
/// Arranges the states of a running engine as the contents of a checkpoint.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shard/shard_manager.hpp"
#include "zeroth/checkpoint/contents.hpp"

namespace zeroth::checkpoint {

/// A piece of a rank's states, in the order of its file.
struct Source {
  std::byte const* data = nullptr;  ///< Null if the states are on `disk`, at `stored`.
  std::int64_t bytes = 0;
  std::string_view unit;
  shard::OffloadedStates const* disk = nullptr;
  device::Stored stored = {};
};

/// Trainable states come in the order of updates, so that those updated first are read first.
struct Arrangement {
  Contents contents;                       ///< Covers the files of all ranks that share these states.
  std::vector<Source> sources;             ///< This rank's sources; views of the layout.
  std::size_t errors = 0;                  ///< Number of sources of errors, which come first: reductions change them.
  ById<shard::FlatId, std::size_t> reads;  ///< Number of sources up to the last one of a flat unit.
};

/// The name under which errors of `flat` are saved. `name` is that of the flat unit or of a parameter. Errors of one
/// use of a tied parameter are named by that use, which may be in another flat unit with another number of pipeline
/// stages.
[[nodiscard]] std::string name_of_errors(shard::Memory const& memory, shard::FlatId flat, std::string const& name);

/// `first_place`: number of the first file of the ranks that share these states. `places`: number of all files.
[[nodiscard]] Arrangement arrange(shard::ShardManager const& manager, int first_place, int places);

}  // namespace zeroth::checkpoint
