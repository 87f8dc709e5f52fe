// SPDX-License-Identifier: Apache-2.0
#include "simulation.hpp"

#include <zeroth/core/error.hpp>

#include "plan.hpp"

namespace zeroth::tools {
namespace {

/// Backward multiplies twice: for the gradients of inputs and of parameters.
std::vector<simulate::UnitWork> work_of(SourcedModel const& model, SimulationRequest const& request,
                                        std::int64_t samples) {
  auto const tokens = static_cast<double>(samples * request.context);
  std::vector<simulate::UnitWork> work;
  for (auto const& facts : model.facts) {
    double const forward = tokens * facts.forward_flops_per_token(request.context);
    work.push_back({.forward_flops = forward,
                    .backward_flops = 2 * forward,
                    .recompute_flops = request.recompute ? forward : 0,
                    .attention_flops = tokens * facts.attention_flops_per_token(request.context),
                    .activation_elements = tokens * static_cast<double>(facts.attention_channels)});
  }
  return work;
}

int total(std::vector<PlannedSlots> const& planned) {
  int slots = 0;
  for (auto const& each : planned) {
    slots += each.slots;
  }
  return slots;
}

/// A machine whose ranks reach the host's memory by a link has GPUs.
zeroth::PlanOptions planned_on(simulate::Machine const& machine) {
  return {.device = machine.host_bytes_per_s > 0 ? DeviceKind::cuda : DeviceKind::cpu};
}

SimulatedStage simulate_stage(SourcedModel const& model, SimulationRequest const& request, int stage, bool asked_for) {
  SimulatedStage simulated;
  simulated.stage = stage;
  try {
    auto const config = at_stage(request.config, stage);
    auto const planned = plan(model.model, config, request.world, planned_on(request.machine));
    auto const& batch = planned.settings.batch;
    auto options = request.options;
    options.timelines = asked_for;
    simulated.result = simulate::run(model.model, config, request.world, work_of(model, request, batch.micro),
                                     request.machine, options);
    simulated.tokens_per_s = static_cast<double>(batch.train * request.context) / (1e-3 * simulated.result->step_ms);
    simulated.parameter_slots = total(planned.parameter_slots);
    simulated.gradient_slots = total(planned.gradient_slots);
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
  auto own = plan(model.model, request.config, request.world, planned_on(request.machine));
  auto const stage_asked_for = own.settings.stage;
  auto const tokens = own.settings.batch.train * request.context;
  Simulations simulations{model, std::move(own), tokens, {}};
  for (int const stage : {0, 1, 2, 3}) {
    simulations.stages.push_back(simulate_stage(model, request, stage, stage == stage_asked_for));
  }
  return simulations;
}

}  // namespace zeroth::tools
