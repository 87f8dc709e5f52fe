// SPDX-License-Identifier: Apache-2.0
#include "engine/stage_plan.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "stage/schedule_file.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {

stage::PipelineSize size_of(Settings const& settings) noexcept {
  return {settings.pipeline.stages, settings.pipeline.chunks, static_cast<int>(settings.batch.accumulation)};
}

std::vector<stage::Actions> lists_of(Settings const& settings) {
  auto const size = size_of(settings);
  return settings.pipeline.schedule == PipelineSchedule::file
             ? stage::read_schedule(settings.pipeline.schedule_file, size)
             : stage::schedule_of(settings.pipeline.schedule, size);
}

StagePlan stage_plan_of(model::Description const& part, Settings const& settings, std::string const& source) {
  constexpr std::int64_t most = 1 << 16;  // a limit, because each stage builds the lists of all stages
  if (settings.batch.accumulation > most) {
    throw ConfigError{
        fmt::format("{}: gradient_accumulation_steps is {}, and zeroth.mesh.pipeline is {}; allowed with it: up to {}",
                    source, settings.batch.accumulation, settings.pipeline.stages, most)};
  }
  if (settings.replay_every > 0) {
    throw ConfigError{
        fmt::format("{}: zeroth.replay_every is {}, but zeroth.mesh.pipeline is {}: a pipeline cannot run a micro-step "
                    "twice; allowed with it: 0",
                    source, settings.replay_every, settings.pipeline.stages)};
  }
  auto const& [stage, stages, chunks, most_input, most_output, shared] = part.stage;
  StagePlan plan;
  auto& actions = plan.script.actions;
  auto& slots = plan.script.slots;
  actions = settings.pipeline.schedule == PipelineSchedule::file
                ? lists_of(settings)[static_cast<std::size_t>(stage)]
                : stage::actions_of(settings.pipeline.schedule, size_of(settings), stage);
  slots = stage::slots_of(actions, settings.pipeline.all_chunks());
  for (auto const& action : actions) {
    auto const chunk = static_cast<std::size_t>(action.chunk / stages);
    auto const end = chunk + 1 < chunks.size() ? chunks[chunk + 1] : static_cast<std::uint32_t>(part.units.size());
    plan.sweeps.push_back({action.phase, chunks[chunk], end});
  }
  auto const of_batch = [&](std::int64_t per_sample) {
    auto const limit = model::largest_count / settings.batch.micro / (slots.most_inputs + slots.most_gradients + 2);
    ZEROTH_EXPECTS(per_sample <= limit,
                   fmt::format("{} elements of a sample (UnitOptions::input_per_sample) in {} samples and {} "
                               "micro-steps in flight are more than memory has; allowed here: up to {}",
                               per_sample, settings.batch.micro, slots.most_activations, limit));
    return per_sample * settings.batch.micro;
  };
  plan.messages = {of_batch(most_input), of_batch(most_output), settings.precision.compute, slots.most_inputs,
                   slots.most_gradients};
  return plan;
}

}  // namespace zeroth::engine
