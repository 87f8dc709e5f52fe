// SPDX-License-Identifier: Apache-2.0
/// The activations of each block that forward keeps for backward.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <zeroth/comm/job.hpp>
#include <zeroth/config/config.hpp>
#include <zeroth/engine/activation_store.hpp>
#include <zeroth/engine/activations.hpp>

#include "units.hpp"

namespace gpt {

enum class Recompute : bool { off, on };

struct KeptBlock {
  Recompute recompute = Recompute::off;  ///< On: only the input is kept, and backward runs forward again.
  bool is_stored = false;                ///< The input waits in an ActivationStore.
};
using KeptBlocks = std::vector<KeptBlock>;

/// The size of a store for the inputs of a micro-batch, each of which has `rows` tokens; nullopt if none is stored.
[[nodiscard]] inline std::optional<zeroth::ActivationStoreOptions> store_of(KeptBlocks const& kept, Shape const& shape,
                                                                            std::int64_t rows,
                                                                            std::int64_t element_bytes) {
  auto const count = std::ranges::count_if(kept, &KeptBlock::is_stored);
  auto const bytes = rows * shape.channels * element_bytes;
  return count == 0 ? std::nullopt
                    : std::optional{zeroth::ActivationStoreOptions{.bytes = count * bytes, .input_bytes = bytes}};
}

/// The choice of the stage file. Throws ConfigError if it lists a unit that is not a block, since only blocks are
/// recomputed.
[[nodiscard]] KeptBlocks kept_blocks_of(zeroth::Config const& config, zeroth::ActivationPolicy const& policy,
                                        GptParams const& params, zeroth::DeviceKind device);

}  // namespace gpt
