// SPDX-License-Identifier: Apache-2.0
/// Assigns memory to actions: activations of the program, and messages. Pure logic.
#pragma once
#include <cstddef>
#include <vector>

#include "stage/pipeline.hpp"

namespace zeroth::stage {

/// The slots of one stage. A micro-step of a chunk holds its slots from its forward action to its last action.
struct PipelineSlots {
  static constexpr int none = -1;
  /// By action: the slots of its micro-step's activations, of the message that forward reads, and of the gradient that
  /// backward reads. `none` if there is no such message. Each chunk has its own activation slots, because chunks differ
  /// in activation sizes.
  std::vector<int> activations, input, gradient;
  /// By action that reads a message: the action that reads the channel's next message, for which a slot is free
  /// already.
  std::vector<std::size_t> reads_next;                            ///< The number of actions means none.
  int most_activations = 0, most_inputs = 0, most_gradients = 0;  ///< Number of slots of each kind.
};

/// The slots for `actions`, in a model of `all_chunks` chunks. Each channel receives one message ahead.
[[nodiscard]] PipelineSlots slots_of(Actions const& actions, int all_chunks);

/// Whether the action reads a message of the previous chunk.
[[nodiscard]] inline bool reads_input(Action const& action) noexcept {
  return action.phase == Phase::forward && action.chunk > 0;
}
[[nodiscard]] inline bool reads_gradient(Action const& action, int all_chunks) noexcept {
  return (action.phase == Phase::backward || action.phase == Phase::backward_inputs) && action.chunk + 1 < all_chunks;
}

}  // namespace zeroth::stage
