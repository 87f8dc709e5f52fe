#include "engine/planning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "zeroth/engine/engine.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/shard/buckets.hpp"
#include "zeroth/stage/policy.hpp"

namespace zeroth {

using engine::Blueprint;
using shard::Placement;

namespace engine {

namespace {

/// Elements of `units` of the largest kind, or of so many that no model has them.
std::int64_t most_in_slots(std::int64_t units, std::int64_t largest_unit) {
  return std::min(units, model::largest_count / largest_unit) * largest_unit;
}

}  // namespace

Blueprint make_blueprint(Model const& model, Config const& config, int world, comm::Transport transport) {
  shard::Layout layout{model.description(), world};
  std::int64_t largest_unit = 1;
  for (auto const& flat : layout.flats()) {
    largest_unit = std::max(largest_unit, flat.padded_count());
  }
  auto settings = config.settings(world, largest_unit);
  auto limits = stage::limits_of(layout, settings);
  shard::PlanRequest request;
  request.placements = stage::placements_for(settings);
  request.precision = settings.precision;
  request.several_reductions =
      settings.batch.accumulation > 1 && settings.reduce_gradients == ReduceGradients::every_micro_step;
  request.sums_micro_steps = settings.sums_micro_steps;
  request.parameter_slots = limits.parameter_slots;
  request.gradient_slots = limits.gradient_slots;
  auto const bucket_limit = limits.bucket_units == std::numeric_limits<int>::max()
                                ? limits.bucket_count
                                : std::min(limits.bucket_count, most_in_slots(limits.bucket_units, largest_unit));
  request.largest_bucket_count = shard::Buckets::largest_count(layout, bucket_limit);
  std::int64_t largest_reduction = 0;
  for (auto const& flat : layout.flats()) {
    largest_reduction = std::max(largest_reduction, flat.trainable.padded_count);
  }
  request.comm_staging_bytes = comm::staging_bytes(transport, world, settings.precision.reduce, largest_reduction);
  request.poison = settings.poison;
  return {std::move(settings), std::move(layout), std::move(limits), std::move(request)};
}

std::string prefetch_warning(Blueprint const& blueprint) {
  auto const& [turns, needed_count] = blueprint.limits.shortage;
  if (turns == 0 || !blueprint.settings.overlap_comm) {
    return {};
  }
  return fmt::format(
      "{} of {} turns of a training pass are not gathered ahead: what they use has, with the unit before, more "
      "elements than zero_optimization.stage3_max_live_parameters, {}; {} is enough for all",
      turns, 2 * blueprint.layout.unit_count(), blueprint.settings.max_live_count, needed_count);
}

std::string stage_note(Settings const& settings) {
  if (settings.batch.accumulation == 1 || settings.reduce_gradients_given) {
    return {};
  }
  bool const every = settings.reduce_gradients == ReduceGradients::every_micro_step;
  return fmt::format(
      "the file has no zeroth.reduce_gradients, and by default stages 0 and 1 reduce gradients once per update, stages "
      "2 and 3 after each of its {} micro-steps: stages round differently; \"{}\" is what stage {} does",
      settings.batch.accumulation, every ? "every_micro_step" : "last_micro_step", settings.stage);
}

std::string sum_warning(Settings const& settings) {
  constexpr std::int64_t few = 8;  // that lose less than the roundings of the gradients themselves
  auto const& precision = settings.precision;
  bool const last = settings.reduce_gradients == ReduceGradients::last_micro_step;
  auto const added_up_in = last && !settings.sums_micro_steps ? precision.gradient : precision.accumulate;
  if (settings.batch.accumulation <= few || added_up_in == Dtype::fp32) {
    return {};
  }
  return fmt::format(
      "{} micro-steps are added up in {}, whose roundings grow with their number; {}", settings.batch.accumulation,
      name_of(added_up_in),
      precision.master == Dtype::bf16
          ? "data_types.grad_accum_dtype \"fp32\" is for a file without bf16.bf16_master_weights_and_grads"
          : "data_types.grad_accum_dtype \"fp32\" adds them up in fp32");
}

}  // namespace engine

MemoryBytes plan(Model const& model, Config const& config, int world, PlanOptions const& options) {
  auto const blueprint = engine::make_blueprint(model, config, world, options.transport);
  return shard::plan_memory(blueprint.layout, blueprint.request).bytes;
}

namespace {

std::string megabytes(std::int64_t bytes) {
  return fmt::format("{:>14} B {:>10.2f} MiB", bytes, static_cast<double>(bytes) / 0x1p20);
}

std::string slots_line(char const* what, shard::SlotCounts const& slots, Dtype dtype) {
  std::string line = fmt::format("{}:", what);
  for (auto const& c : slots.classes) {
    line += fmt::format(" {} x {} elements ({} units)", c.slots, c.capacity_count, c.flats.size());
  }
  return line + fmt::format(", {}\n", name_of(dtype));
}

std::string decisions(Blueprint const& blueprint) {
  auto const& [settings, layout, limits, request] = blueprint;
  auto const& precision = settings.precision;
  auto const place = [](Placement placement) { return placement == Placement::whole ? "whole" : "shard"; };
  std::string text;
  text += fmt::format("placements: parameters {}, gradients {}, optimizer {}\n", place(request.placements.parameters),
                      place(request.placements.gradients), place(request.placements.optimizer));
  text += fmt::format("dtypes: compute {}, gradient {}, reduce {}, accumulate {}, master {}, moments {}\n",
                      name_of(precision.compute), name_of(precision.gradient), name_of(precision.reduce),
                      name_of(precision.accumulate), name_of(precision.master), name_of(precision.moments));
  if (precision.master == Dtype::bf16) {
    text += "the parameters are the masters: updates are rounded stochastically\n";
  }
  text += fmt::format("batch: {} = {} samples x {} micro-steps x {} ranks\n", settings.batch.train,
                      settings.batch.micro, settings.batch.accumulation, layout.world());
  if (request.placements.parameters == Placement::shard) {
    text += slots_line("parameter slots", limits.parameter_slots, precision.compute);
    if (auto const warning = engine::prefetch_warning(blueprint); !warning.empty()) {
      text += fmt::format("prefetch: {}\n", warning);
    }
  }
  if (request.placements.gradients == Placement::shard) {
    text += slots_line("gradient slots", limits.gradient_slots, precision.gradient);
    if (limits.bucket_units < std::numeric_limits<int>::max()) {
      text +=
          fmt::format("buckets: at most {} units, half of zeroth.gradient_slots, whatever reduce_bucket_size allows\n",
                      limits.bucket_units);
    }
  } else if (stage::placements_of(settings.stage).gradients == Placement::shard) {
    text += "gradients are whole: with zeroth.reduce_gradients last_micro_step they are held between micro-steps\n";
  }
  if (settings.batch.accumulation > 1 && settings.reduce_gradients == ReduceGradients::last_micro_step) {
    text += settings.sums_micro_steps
                ? std::string{"micro-steps add up in fp32 (data_types.grad_accum_dtype) in gradients that are whole, and "
                              "are reduced once\n"}
                : fmt::format("micro-steps add up in {} (zeroth.gradient_dtype), and are reduced once\n",
                              name_of(precision.gradient));
  }
  if (settings.poison) {
    text += "poison: guards hand out copies of what is held, in scratch\n";
  }
  for (auto const& note : {engine::stage_note(settings), engine::sum_warning(settings)}) {
    text += note.empty() ? note : fmt::format("note: {}\n", note);
  }
  return text;
}

}  // namespace

std::string explain_plan(Model const& model, Config const& config, int world, PlanOptions const& options) {
  auto const blueprint = engine::make_blueprint(model, config, world, options.transport);
  auto const bytes = shard::plan_memory(blueprint.layout, blueprint.request).bytes;
  std::int64_t used = 0;
  std::int64_t padded = 0;
  for (auto const& flat : blueprint.layout.flats()) {
    used += flat.used_count();
    padded += flat.padded_count();
  }
  std::string text =
      fmt::format("stage {}, {} rank{}, {} parameters ({} with padding) in {} flat units\n", blueprint.settings.stage,
                  world, world == 1 ? "" : "s", used, padded, blueprint.layout.flats().size());
  text += decisions(blueprint);
  text += "each rank holds:\n";
  text += fmt::format("  parameters {}\n", megabytes(bytes.parameters));
  text += fmt::format("  gradients  {}\n", megabytes(bytes.gradients));
  text += fmt::format("  optimizer  {}\n", megabytes(bytes.optimizer));
  text += fmt::format("  slots      {}\n", megabytes(bytes.slots));
  text += fmt::format("  scratch    {}\n", megabytes(bytes.scratch));
  text += fmt::format("  total      {}\n", megabytes(bytes.total()));
  return text;
}

}  // namespace zeroth
