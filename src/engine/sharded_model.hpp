// SPDX-License-Identifier: Apache-2.0
/// What an engine's rank has of the model: its plan, its memory, and the order in which states move.
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
  /// Plans what the stage of `runtime` has of `whole`. Nothing is allocated before allocate().
  ShardedModel(Runtime& runtime, Model const& whole, Config const& config);

  [[nodiscard]] Settings const& settings() const noexcept { return blueprint.settings; }
  /// Makes the manager and the schedule, on the streams and communicators of `runtime`.
  void allocate(Runtime const& runtime);
  /// When nothing else is enqueued: compares what all ranks of `exchange` hold alike. Waits.
  void compare_replicas(shard::States states, std::string const& after, Exchange const& exchange);
  /// Likewise what stages of a pipeline hold alike at this rank's place.
  void compare_ties(shard::States states, std::string const& after, Exchange const& exchange);
  /// Bytes of states that are offloaded to a tier.
  [[nodiscard]] std::int64_t offloaded_bytes(shard::Tier tier) const;

  std::unique_ptr<model::Description> model;  // what the stage has; without functions once they have given their values
  Blueprint blueprint;
  std::unique_ptr<shard::CallLog> calls;  // of comms_logger
  std::unique_ptr<shard::ShardManager> manager;
  std::unique_ptr<stage::Schedule> schedule;
};

}  // namespace zeroth::engine
