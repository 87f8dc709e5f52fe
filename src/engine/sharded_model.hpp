// SPDX-License-Identifier: Apache-2.0
/// A rank's part of the model: its plan, its memory, and the schedule that moves states.
#pragma once
#include <memory>

#include "engine/planning.hpp"
#include "engine/runtime.hpp"
#include "shard/shard_manager.hpp"
#include "stage/schedule.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

struct ShardedModel {
  /// Plans the part of `whole` that the stage of `runtime` has. allocate() allocates its memory.
  ShardedModel(Runtime& runtime, Model const& whole, Config const& config);

  [[nodiscard]] Settings const& settings() const noexcept { return blueprint.settings; }
  /// Makes the manager and the schedule, on the streams and communicators of `runtime`.
  void allocate(Runtime const& runtime);
  /// Compares the states that all ranks of `exchange` hold alike. Waits. Call when nothing else is enqueued.
  void compare_replicas(shard::States states, std::string const& after, Exchange const& exchange);
  /// Compares the states that pipeline stages hold alike at this rank's place.
  void compare_ties(shard::States states, std::string const& after, Exchange const& exchange);
  /// Bytes of states that are offloaded to a tier.
  [[nodiscard]] std::int64_t offloaded_bytes(shard::Tier tier) const;

  std::unique_ptr<model::Description> model;  // the stage's part; its init functions are dropped once they have been
                                              // called
  Blueprint blueprint;
  std::unique_ptr<shard::CallLog> calls;  // of comms_logger
  std::unique_ptr<shard::ShardManager> manager;
  std::unique_ptr<stage::Schedule> schedule;
};

}  // namespace zeroth::engine
