// SPDX-License-Identifier: Apache-2.0
#include "kept_blocks.hpp"

#include <fmt/format.h>

#include <zeroth/core/error.hpp>

namespace gpt {

KeptBlocks kept_blocks_of(zeroth::Config const& config, zeroth::ActivationPolicy const& policy, GptParams const& params,
                          zeroth::DeviceKind device) {
  bool const listed = config.activation_checkpointing().units == zeroth::RecomputedUnits::listed;
  for (auto const& [unit, name] :
       {std::pair{params.embedding.unit, "embedding"}, std::pair{params.head.unit, "head"}}) {
    if (listed && policy.recomputes(unit)) {
      throw zeroth::ConfigError{
          fmt::format("{}: zeroth.activation_checkpointing.units: \"{}\", but train_gpt recomputes only blocks; "
                      "allowed: \"transformer.h.0\" to \"transformer.h.{}\"",
                      config.source(), name, params.shape.layers - 1)};
    }
  }
  // Only outside of the device's own memory, which is "cpu" on CPUs.
  bool const has_store = policy.offload() == (device == zeroth::DeviceKind::cpu ? zeroth::ActivationOffload::nvme
                                                                                : zeroth::ActivationOffload::cpu);
  KeptBlocks kept;
  for (auto const& block : params.blocks) {
    kept.push_back({.recompute = policy.recomputes(block.unit) ? Recompute::on : Recompute::off,
                    .is_stored = has_store && policy.offloads(block.unit)});
  }
  return kept;
}

}  // namespace gpt
