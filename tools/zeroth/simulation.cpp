// SPDX-License-Identifier: Apache-2.0
#include "simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include <zeroth/core/error.hpp>
#include <zeroth/engine/activations.hpp>

#include "plan.hpp"

namespace zeroth::tools {
namespace {

/// The fraction of a model's activations that a tensor rank holds. Without sequence parallelism, each rank holds those
/// outside the divided layers whole: 10 of 34 bytes that backward needs (Korthikanti et al. 2022, table 2).
double part_of_activations(Config const& config) {
  double const divided = 1.0 / config.tensor_ranks();
  return config.sequence_parallel() ? divided : (10 + 24 * divided) / 34;
}

/// A block sums after attention, and after its last product, which is not recomputed.
double recomputed_sums(UnitFacts const& facts) {
  return facts.last_matmul_count == 0 ? 1 : facts.attention_channels > 0 ? 0.5 : 0;
}

/// The fraction of attention's operations that zeroth.sparse_attention leaves: the density of the first head, since all
/// heads read about as much. Throws ConfigError if the layout does not fit the context.
double attention_density(Config const& config, std::int64_t context) {
  auto const layout = config.sparse_attention();
  if (!layout) {
    return 1;
  }
  if (auto const problems = layout->problems(context); !problems.empty()) {
    throw ConfigError{fmt::format("{}: zeroth.sparse_attention.{}: {}", config.source(), problems.front().field,
                                  problems.front().why)};
  }
  return BlockLayout{*layout, 1, context}.density();
}

/// Backward has two products: for the gradients of inputs and of parameters.
std::vector<simulate::UnitWork> work_of(SourcedModel const& model, SimulationRequest const& request,
                                        std::int64_t samples) {
  auto const tokens = static_cast<double>(samples * request.context);
  double const channels_of_all = request.config.tensor_ranks() * part_of_activations(request.config);
  double const density = attention_density(request.config, request.context);
  ActivationPolicy const policy{request.config, model.model};
  std::vector<simulate::UnitWork> work;
  for (auto const& facts : model.facts) {
    bool const again =
        request.recompute || policy.recomputes(model.model.unit_at(static_cast<std::uint32_t>(work.size())));
    double const dense_attention = tokens * facts.attention_flops_per_token(request.context);
    double const left_out = (1 - density) * dense_attention;
    double const forward = tokens * facts.forward_flops_per_token(request.context) - left_out;
    work.push_back({.forward_flops = forward,
                    .backward_flops = 2 * forward,
                    .recompute_flops = again ? tokens * facts.recompute_flops_per_token(request.context) - left_out : 0,
                    .attention_flops = dense_attention - left_out,
                    .activation_elements = tokens * channels_of_all * static_cast<double>(facts.attention_channels),
                    .matrix_elements = static_cast<double>(facts.matmul_count),
                    .overlapped_flops = 2 * tokens * static_cast<double>(facts.first_matmul_count),
                    .recompute_sums = again ? recomputed_sums(facts) : 0});
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

/// A machine that reaches host memory over a link has GPUs.
zeroth::PlanOptions planned_on(simulate::Machine const& machine) {
  return {.device = machine.host_bytes_per_s > 0 ? DeviceKind::cuda : DeviceKind::cpu};
}

/// The request's file with the stage or schedule of `simulated`.
Config config_of(SimulationRequest const& request, SimulatedStage const& simulated) {
  if (!simulated.schedule) {
    return at_stage(request.config, simulated.stage);
  }
  auto const own = request.config.pipeline();
  if (*simulated.schedule == own.schedule) {
    return request.config;
  }
  bool const has_chunks = *simulated.schedule == PipelineSchedule::interleaved;
  return request.config.with(fmt::format(R"({{"zeroth": {{"pipeline": {{"schedule": "{}", "chunks": {}{}}}}}}})",
                                         name_of(*simulated.schedule), has_chunks ? std::max(2, own.chunks) : 1,
                                         own.schedule_file.empty() ? "" : R"(, "schedule_file": null)"));
}

/// Adds the result to `simulated`.
SimulatedStage simulate_stage(SourcedModel const& model, SimulationRequest const& request, SimulatedStage simulated) {
  try {
    auto const config = config_of(request, simulated);
    auto const planned = plan(model.model, config, request.world, planned_on(request.machine));
    auto const& batch = planned.settings.batch;
    auto options = request.options;
    options.timelines = simulated.asked_for;
    options.nearness = simulated.nearness.value_or(options.nearness);
    simulated.result = simulate::run(model.model, config, request.world, work_of(model, request, batch.micro),
                                     request.machine, options);
    simulated.tokens_per_s = static_cast<double>(batch.train * request.context) / (1e-3 * simulated.result->step_ms);
    simulated.parameter_slots = total(planned.parameter_slots);
    simulated.gradient_slots = total(planned.gradient_slots);
  } catch (ConfigError const& error) {
    if (simulated.asked_for) {
      throw;
    }
    simulated.refused = error.what();
  }
  return simulated;
}

/// The mesh with its axes in all orders. An axis of one rank does not affect the location of ranks, so such axes keep
/// their place in Mesh's order.
std::vector<SimulatedStage> simulate_orders(SourcedModel const& model, SimulationRequest const& request,
                                            Plan const& planned) {
  using simulate::MeshAxis;
  auto const own = simulate::Options{}.nearness;
  std::map<MeshAxis, int> const sizes{{MeshAxis::tensor, request.config.tensor_ranks()},
                                      {MeshAxis::data, planned.data_ranks},
                                      {MeshAxis::pipeline, request.config.pipeline().stages}};
  if (std::ranges::count_if(sizes, [](auto const& size) { return size.second > 1; }) < 2) {
    throw ConfigError{
        fmt::format("--permute: a mesh of {} tensor, {} data and {} pipeline ranks has only one order; allowed: meshes "
                    "with several ranks along at least two axes",
                    sizes.at(MeshAxis::tensor), sizes.at(MeshAxis::data), sizes.at(MeshAxis::pipeline))};
  }
  std::vector<SimulatedStage> orders;
  auto nearness = own;
  do {
    bool const is_new = std::ranges::all_of(own, [&](MeshAxis axis) {
      auto const place = [axis](auto const& order) { return std::ranges::find(order, axis) - order.begin(); };
      return sizes.at(axis) > 1 || place(nearness) == place(own);
    });
    if (is_new) {
      orders.push_back(simulate_stage(
          model, request, {.stage = planned.settings.stage, .nearness = nearness, .asked_for = nearness == own}));
    }
  } while (std::ranges::next_permutation(nearness).found);
  std::ranges::stable_sort(orders, {}, [](SimulatedStage const& order) {
    return order.result ? order.result->step_ms : std::numeric_limits<double>::infinity();
  });
  return orders;
}

}  // namespace

std::string name_of(SimulatedStage const& stage) {
  if (stage.nearness) {
    auto const& [nearest, next, farthest] = *stage.nearness;
    return fmt::format("{}, {}, {}", name_of(nearest), name_of(next), name_of(farthest));
  }
  return stage.schedule ? std::string{name_of(*stage.schedule)} : fmt::format("stage {}", stage.stage);
}

Simulations simulate_stages(SourcedModel const& model, SimulationRequest const& request) {
  auto own = plan(model.model, request.config, request.world, planned_on(request.machine));
  auto const settings = own.settings;
  auto const tokens = settings.batch.train * request.context;
  Simulations simulations{model, std::move(own), tokens, {}};
  if (request.permute) {
    simulations.stages = simulate_orders(model, request, simulations.plan);
    return simulations;
  }
  if (!request.schedules) {
    for (int const stage : {0, 1, 2, 3}) {
      simulations.stages.push_back(
          simulate_stage(model, request, {.stage = stage, .asked_for = stage == settings.stage}));
    }
    return simulations;
  }
  if (settings.pipeline.stages == 1) {
    throw ConfigError{"--schedules: zeroth.mesh.pipeline is 1; allowed: 2 or more"};
  }
  for (auto const schedule : pipeline_schedules) {
    simulations.stages.push_back(simulate_stage(
        model, request,
        {.stage = settings.stage, .schedule = schedule, .asked_for = schedule == settings.pipeline.schedule}));
  }
  if (settings.pipeline.schedule == PipelineSchedule::file) {
    simulations.stages.push_back(simulate_stage(
        model, request, {.stage = settings.stage, .schedule = PipelineSchedule::file, .asked_for = true}));
  }
  return simulations;
}

}  // namespace zeroth::tools
