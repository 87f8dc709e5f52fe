// SPDX-License-Identifier: Apache-2.0
/// Owns a rank's parameters, gradients and optimizer states.
#pragma once
#include "shard/gradients.hpp"
#include "shard/memory.hpp"
#include "shard/optimizer.hpp"
#include "shard/parameters.hpp"
#include "shard/slices.hpp"
#include "shard/values.hpp"

namespace zeroth::shard {

/// Bytes passed to collectives.
struct Traffic {
  MovedBytes gathered, reduced;
};

/// Operations are enqueued, in program order on every rank. On a GPU none blocks the host; on the CPU only those that
/// work on the compute stream wait. Nothing here depends on the stage: placements decide what to do.
struct ShardManager {
  /// Collective. Waits. `loss_scale` is the one of the first loss.
  ShardManager(ManagerContext const& context, PlanRequest const& request, optim::LossScaleState const& loss_scale)
      : memory{context, request},
        parameters{memory},
        gradients{memory},
        optimizer{memory, loss_scale},
        values{memory},
        slices{memory} {}

  [[nodiscard]] Traffic traffic() const noexcept {
    return {parameters.gathered_bytes(), gradients.reduced_bytes() + optimizer.moved()};
  }

  Memory memory;  // the others use it
  Parameters parameters;
  Gradients gradients;
  Optimizer optimizer;
  Values values;
  Slices slices;
};

}  // namespace zeroth::shard
