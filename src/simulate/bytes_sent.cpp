// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <limits>
#include <vector>

#include "zeroth/core/error.hpp"
#include "zeroth/engine/plan.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/simulate/simulate.hpp"

namespace zeroth::simulate {
namespace {

/// The first micro-step finds units that the update left gathered, and no micro-step follows the last. All others are
/// alike.
constexpr std::int64_t first_and_last = 2;

std::int64_t counted_in_a_step(Model const& model, Config const& config, int world) {
  // The bytes sent depend neither on the machine nor on the duration of the math.
  std::vector<UnitWork> const no_work(model.description().units.size());
  return run(model, config, world, no_work, machine_of("8xH100")).bytes_sent;
}

}  // namespace

std::int64_t bytes_sent_per_step(Model const& model, Config const& config, int world) {
  auto const planned = plan(model, config, world);
  if (planned.servers.count > 0) {
    return planned.servers.pushed_bytes;
  }
  auto const& batch = planned.settings.batch;
  // A pipeline is full after as many micro-steps as it has stages, and then repeats itself. With several chunks per
  // stage it repeats itself every `stages` micro-steps.
  auto const& pipeline = planned.settings.pipeline;
  auto const turn = pipeline.schedule == PipelineSchedule::interleaved ? std::int64_t{pipeline.stages} : 1;
  auto const fewest = turn > 1 ? 3 * turn : first_and_last + std::ssize(planned.pipeline);
  if (batch.accumulation <= fewest + turn || pipeline.schedule == PipelineSchedule::file) {
    return counted_in_a_step(model, config, world);
  }
  auto const with = [&](std::int64_t micro_steps) {
    auto const changes = fmt::format(R"({{"train_batch_size": {}, "train_micro_batch_size_per_gpu": {},
                                          "gradient_accumulation_steps": {}}})",
                                     batch.micro * micro_steps * planned.data_ranks, batch.micro, micro_steps);
    return counted_in_a_step(model, config.with(changes), world);
  };
  auto const least = with(fewest);
  auto const each_more = with(fewest + turn) - least;
  auto const more = (batch.accumulation - fewest) / turn;
  if (each_more > (std::numeric_limits<std::int64_t>::max() - least) / more) {
    throw ConfigError{fmt::format(
        "gradient_accumulation_steps is {}: in that many micro-steps of {} bytes each, a rank would send more bytes in "
        "a step than 64 bits can count; allowed for this model: up to {}",
        batch.accumulation, each_more, (std::numeric_limits<std::int64_t>::max() - least) / each_more + fewest)};
  }
  return least + more * each_more;
}

}  // namespace zeroth::simulate
