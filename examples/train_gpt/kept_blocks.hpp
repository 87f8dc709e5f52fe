// SPDX-License-Identifier: Apache-2.0
/// What forward keeps of each block for backward.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include <zeroth/config/config.hpp>
#include <zeroth/engine/activations.hpp>

#include "units.hpp"

namespace gpt {

enum class Recompute : bool { off, on };

struct KeptBlock {
  Recompute recompute = Recompute::off;  ///< On: only the input is kept, and backward runs forward again.
  bool on_disk = false;                  ///< The input waits in an ActivationStore.
};
using KeptBlocks = std::vector<KeptBlock>;

/// The number of blocks whose inputs wait on a disk.
[[nodiscard]] inline std::int64_t count_on_disk(KeptBlocks const& kept) {
  return std::ranges::count_if(kept, &KeptBlock::on_disk);
}

/// As the stage file asks. Throws ConfigError if it lists a unit that is no block: nothing else is recomputed.
[[nodiscard]] KeptBlocks kept_blocks_of(zeroth::Config const& config, zeroth::ActivationPolicy const& policy,
                                        GptParams const& params);

}  // namespace gpt
