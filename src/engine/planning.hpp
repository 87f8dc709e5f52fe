/// From a model and a stage file to everything that an engine will hold.
#pragma once
#include "zeroth/comm/communicator.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/model/model.hpp"
#include "zeroth/shard/layout.hpp"
#include "zeroth/shard/memory_plan.hpp"
#include "zeroth/stage/schedule.hpp"

namespace zeroth::engine {

/// All that follows from (model, config, world) alone.
struct Blueprint {
  Settings settings;
  shard::Layout layout;
  stage::ScheduleLimits limits;
  shard::PlanRequest request;
};
[[nodiscard]] Blueprint make_blueprint(Model const& model, Config const& config, int world, comm::Transport transport);

}  // namespace zeroth::engine
