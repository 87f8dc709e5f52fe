// SPDX-License-Identifier: Apache-2.0
/// Which memory an action uses: activations of the program, and messages. Pure logic.
#pragma once
#include <cstddef>
#include <vector>

#include "stage/pipeline.hpp"

namespace zeroth::stage {

/// Of one stage. A micro-step of a chunk holds what is its own from its forward action to its last one.
struct PipelineSlots {
  static constexpr int none = -1;
  /// By action: where the activations of its micro-step are, the message that forward reads, and the gradient that
  /// backward does. None where there is no such message. Each chunk has slots of its own for activations, whose sizes
  /// are its own.
  std::vector<int> activations, input, gradient;
  /// By action that reads a message: the action that reads the next one of the channel, whose slot is free already.
  std::vector<std::size_t> reads_next;                            ///< The number of actions: none.
  int most_activations = 0, most_inputs = 0, most_gradients = 0;  ///< Slots of each.
};

/// Of `actions`, of a model of `all_chunks`. Each channel receives one message ahead.
[[nodiscard]] PipelineSlots slots_of(Actions const& actions, int all_chunks);

/// Does the action read a message of the chunk before, or behind?
[[nodiscard]] inline bool reads_input(Action const& action) noexcept {
  return action.phase == Phase::forward && action.chunk > 0;
}
[[nodiscard]] inline bool reads_gradient(Action const& action, int all_chunks) noexcept {
  return (action.phase == Phase::backward || action.phase == Phase::backward_inputs) && action.chunk + 1 < all_chunks;
}

}  // namespace zeroth::stage
