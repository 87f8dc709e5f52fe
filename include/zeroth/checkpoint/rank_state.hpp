// SPDX-License-Identifier: Apache-2.0
/// The program state that each rank has saved.
#pragma once
#include <cstddef>
#include <filesystem>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth::checkpoint {

/// One of the ranks that wrote a checkpoint, by its place in SavedRanks.
struct SavedRank {
  int data = 0;    ///< Its AnyEngine::place(), which is its rank in the job without a mesh and without groups.
  int tensor = 0;  ///< Among tensor-parallel ranks.
  int stage = 0;   ///< The stage of a pipeline.
};

/// Returns what `rank` passed as SaveOptions::rank_state to the save of the checkpoint in the folder `checkpoint`. At
/// another number of ranks the program decides which ones it reads. Reads the record and the rank's bytes, and checks
/// their hashes. Any thread of any process may call it; not collective. Throws ContractError if the save had no rank
/// states, or no such rank, DamagedError if the checkpoint is damaged, and SystemError if it cannot be read.
[[nodiscard]] ZEROTH_EXPORT std::vector<std::byte> read_rank_state(std::filesystem::path const& checkpoint,
                                                                   SavedRank const& rank = {});

}  // namespace zeroth::checkpoint
