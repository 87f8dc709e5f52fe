#include "simulation.hpp"

#include <fmt/format.h>

#include <zeroth/core/error.hpp>
#include <zeroth/model/description.hpp>

#include "model_facts.hpp"
#include "text_table.hpp"

namespace zeroth::tools {
namespace {

/// Backward multiplies twice: for the gradients of inputs and of parameters.
std::vector<simulate::UnitWork> work_of(SourcedModel const& model, SimulationRequest const& request,
                                        std::int64_t samples) {
  auto const tokens = static_cast<double>(samples * request.context);
  std::vector<simulate::UnitWork> work;
  for (auto const& facts : model.facts) {
    double const forward = tokens * facts.forward_flops_per_token(request.context);
    work.push_back({forward, 2 * forward, request.recompute ? forward : 0});
  }
  return work;
}

SimulatedStage simulate_stage(SourcedModel const& model, SimulationRequest const& request, int stage, bool asked_for) {
  SimulatedStage simulated;
  simulated.stage = stage;
  try {
    auto const config = request.config.with(fmt::format(R"({{"zero_optimization": {{"stage": {}}}}})", stage));
    auto const batch = config.settings(request.world, 1).batch;
    auto options = request.options;
    options.timelines = asked_for;
    simulated.result = simulate::run(model.model, config, request.world, work_of(model, request, batch.micro),
                                     request.machine, options);
    simulated.tokens_per_s = static_cast<double>(batch.train * request.context) / (1e-3 * simulated.result->step_ms);
  } catch (ConfigError const& error) {
    if (asked_for) {
      throw;
    }
    simulated.refused = error.what();
  }
  return simulated;
}

}  // namespace

Simulations simulate_stages(SourcedModel const& model, SimulationRequest const& request) {
  auto const settings = request.config.settings(request.world, 1);
  auto const facts = facts_of(model.model);
  Simulations simulations;
  simulations.model_about = fmt::format("{}: {} parameters in {} unit{}; {}", model.name, grouped(facts.parameters),
                                        facts.units, facts.units == 1 ? "" : "s", model.about);
  simulations.tokens_per_step = settings.batch.train * request.context;
  simulations.stage_asked_for = settings.stage;
  for (int const stage : {0, 1, 2, 3}) {
    simulations.stages.push_back(simulate_stage(model, request, stage, stage == settings.stage));
  }
  return simulations;
}

}  // namespace zeroth::tools
