#include "plan.hpp"

#include <fmt/format.h>

#include <zeroth/core/error.hpp>

#include "bytes_sent.hpp"
#include "engine/planning.hpp"

namespace zeroth::tools {

namespace {

engine::Blueprint blueprint_of(Plan const& plan) {
  return engine::make_blueprint(plan.model, plan.config, plan.world, plan.transport);
}

}  // namespace

Settings settings_of(Plan const& plan) { return blueprint_of(plan).settings; }

std::vector<std::string> notes_of(Plan const& plan) {
  auto const blueprint = blueprint_of(plan);
  std::vector<std::string> notes{engine::stage_note(blueprint.settings), engine::sum_warning(blueprint.settings),
                                 engine::prefetch_warning(blueprint)};
  std::erase(notes, std::string{});
  return notes;
}

RankMemory memory_of(Plan const& plan) {
  auto const blueprint = blueprint_of(plan);
  auto const memory = shard::plan_memory(blueprint.layout, blueprint.request);
  auto states = memory.bytes;
  states.parameters -= memory.padding.parameters;
  states.gradients -= memory.padding.gradients;
  states.optimizer -= memory.padding.optimizer;
  return {states, memory.padding.total()};
}

Plan changed(Plan const& plan, std::string const& changes) {
  return {plan.model, plan.config.with(changes), plan.world, plan.transport};
}

Config at_stage(Config const& config, int stage) {
  return config.with(fmt::format(R"({{"zero_optimization": {{"stage": {}}}}})", stage));
}

Plan at_stage(Plan const& plan, int stage) {
  return {plan.model, at_stage(plan.config, stage), plan.world, plan.transport};
}

std::vector<StagePlan> plan_stages(Plan const& plan) {
  auto const own = settings_of(plan).stage;
  std::vector<StagePlan> stages;
  for (int stage = 0; stage <= 3; ++stage) {
    StagePlan result;
    result.stage = stage;
    try {
      auto const here = at_stage(plan, stage);
      result.memory = memory_of(here);
      result.bytes_sent_per_step = bytes_sent_per_step(here.model, here.config, here.world);
    } catch (ConfigError const& error) {
      if (stage == own) {
        throw;
      }
      result.refused = error.what();
    }
    stages.push_back(std::move(result));
  }
  return stages;
}

}  // namespace zeroth::tools
