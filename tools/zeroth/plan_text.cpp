// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "job_options.hpp"
#include "option_values.hpp"
#include "plan_output.hpp"
#include "readable.hpp"
#include "text_table.hpp"

namespace zeroth::tools {
namespace {

Scale scale_of(std::vector<StagePlan> const& stages) {
  auto least = std::numeric_limits<double>::infinity();
  for (auto const& stage : stages) {
    least = std::min(least, stage.plan ? static_cast<double>(stage.plan->bytes.total()) : least);
  }
  return scale_of_bytes(least);
}

std::string about_tensor_ranks(Plan const& plan) {
  return plan.tensor_ranks == 1 ? ""
                                : fmt::format(", {} of them on each of {} tensor ranks",
                                              grouped(plan.tensor_rank_count), plan.tensor_ranks);
}

std::string headline(PlanResult const& result) {
  auto const& asked_for = result.asked_for;
  auto const& settings = asked_for.settings;
  auto const& precision = settings.precision;
  auto const* const without = result.config_file.empty() ? ", 16 bytes per parameter as in the ZeRO paper" : "";
  return fmt::format(
      "{}: {}{} in {}; {}\n"
      "{}; {}: stage {} in {}{}{}{}\n"
      "compute {}, gradients {}, reduced in {}, accumulated in {}, master {}; {}; {} on another number of ranks\n\n",
      result.model.name, counted(asked_for.parameter_count, "parameter"), about_tensor_ranks(asked_for),
      counted(asked_for.units, "unit"), result.model.about, counted(asked_for.world, "rank"),
      name_of_config(result.config_file), settings.stage, name_of(precision.compute),
      settings.overlap_comm ? ", overlap" : ", no overlap", about_groups(settings.groups), without,
      name_of(precision.compute), name_of(precision.gradient), name_of(precision.reduce), name_of(precision.accumulate),
      name_of(precision.master), counted(settings.batch.accumulation, "micro-step"),
      asked_for.other_ranks.empty() ? "the same bits" : "other roundings");
}

std::int64_t bytes_of_host(Plan const& plan) { return plan.host.bytes; }
std::int64_t bytes_on_disk(Plan const& plan) { return plan.bytes_on_disk(); }

/// Whether any stage has bytes there.
template <class Bytes>
bool uses(PlanResult const& result, Bytes const& bytes) {
  return std::ranges::any_of(result.stages,
                             [&](StagePlan const& stage) { return stage.plan && bytes(*stage.plan) > 0; });
}

bool stages_checkpoints(PlanResult const& result) { return result.asked_for.settings.checkpoint.buffer_bytes > 0; }

Row row_of(StagePlan const& stage, PlanResult const& result, Scale const& scale) {
  Row row{fmt::format("stage {}{}", stage.stage, stage.stage == stage_asked_for(result) ? " *" : "")};
  if (!stage.plan) {
    row.emplace_back("refused, see below");
    return row;
  }
  auto const states = stage.plan->without_padding();
  auto const padding = stage.plan->padding.total();
  auto const total = stage.plan->bytes.total();
  for (auto const bytes :
       {states.parameters, states.gradients, states.optimizer, states.slots, states.scratch, padding, total}) {
    row.push_back(in(scale, bytes));
  }
  auto const& whole = result.stages.front().plan;
  row.push_back(whole && stage.stage > 0
                    ? fmt::format("{:.1f} %", 100.0 - 100.0 * static_cast<double>(total) /
                                                          static_cast<double>(whole->bytes.total()))
                    : "");
  row.push_back(in(scale, stage.bytes_sent_per_step));
  for (auto* const bytes : {&bytes_of_host, &bytes_on_disk}) {
    if (uses(result, bytes)) {
      row.push_back(in(scale, bytes(*stage.plan)));
    }
  }
  if (stages_checkpoints(result)) {
    row.push_back(in(scale, stage.plan->staging_bytes));
  }
  if (result.device_bytes) {
    row.push_back(left_of(scale, *result.device_bytes - total));
  }
  return row;
}

std::string table(PlanResult const& result, Paper const& paper) {
  auto const scale = scale_of(result.stages);
  Row head{fmt::format("{} per rank", scale.name),
           "parameters",
           "gradients",
           "optimizer",
           "slots",
           "scratch",
           "padding",
           "total",
           "saved",
           "sent per step"};
  if (uses(result, bytes_of_host)) {
    head.emplace_back("of host");
  }
  if (uses(result, bytes_on_disk)) {
    head.emplace_back("on disk");
  }
  if (stages_checkpoints(result)) {
    head.emplace_back("staging");
  }
  if (result.device_bytes) {
    head.push_back(fmt::format("left of {}", in(scale, *result.device_bytes)));
  }
  std::vector<Row> rows{head};
  for (auto const& stage : result.stages) {
    rows.push_back(row_of(stage, result, scale));
  }
  return aligned(rows, paper);
}

/// A row for each stage of the pipeline, at the requested ZeRO stage.
std::string pipeline_table(PlanResult const& result, Paper const& paper) {
  auto const& asked_for = result.asked_for;
  if (asked_for.pipeline.empty()) {
    return {};
  }
  auto least = std::numeric_limits<double>::infinity();
  for (auto const& stage : asked_for.pipeline) {
    least = std::min(least, static_cast<double>(stage.bytes.total()));
  }
  auto const scale = scale_of_bytes(least);
  std::vector<Row> rows{{fmt::format("{} per rank at stage {}", scale.name, asked_for.settings.stage), "units",
                         "elements", "in flight", "parameters", "gradients", "optimizer", "slots", "messages",
                         "scratch", "padding", "total"}};
  for (std::size_t number = 0; number < asked_for.pipeline.size(); ++number) {
    auto const& stage = asked_for.pipeline[number];
    auto const& [bytes, padding] = std::tie(stage.bytes, stage.padding);
    rows.push_back({fmt::format("pipeline stage {}{}", number, number == asked_for.largest_stage ? ", largest" : ""),
                    grouped(stage.units), grouped(stage.parameter_count), grouped(stage.in_flight)});
    for (auto const amount : {bytes.parameters - padding.parameters, bytes.gradients - padding.gradients,
                              bytes.optimizer - padding.optimizer, bytes.slots - stage.message_bytes,
                              stage.message_bytes, bytes.scratch, padding.total(), bytes.total()}) {
      rows.back().push_back(in(scale, amount));
    }
  }
  return fmt::format("\nA pipeline of {} of {}, {}; the table above is of the stage that holds most:\n{}",
                     counted(std::ssize(asked_for.pipeline), "stage"), counted(asked_for.data_ranks, "rank"),
                     name_of(asked_for.settings.pipeline.schedule), aligned(rows, paper));
}

/// The activations that the program keeps, if the file recomputes some units.
std::string about_activations(Plan const& plan) {
  auto const& planned = plan.activations;
  if (planned.recomputed == 0) {
    return {};
  }
  auto text = fmt::format("Activations are the program's: backward runs forward of {} of {} again",
                          grouped(planned.recomputed), counted(plan.units, "unit"));
  auto const* const where = plan.device == DeviceKind::cpu ? "a file" : "pinned memory of the host";
  if (planned.offloaded > 0 && planned.stored_bytes > 0) {
    text += fmt::format(
        "; the inputs of {} wait in {} of {} per rank, with {} of memory for those under way; a step writes {} and "
        "reads {}",
        grouped(planned.offloaded), where, readable_bytes(planned.stored_bytes), readable_bytes(planned.memory_bytes),
        readable_bytes(planned.written_bytes), readable_bytes(planned.read_bytes));
  } else if (planned.offloaded > 0) {
    text += fmt::format("; the inputs of {} wait in a file, whose size is unknown without --context",
                        grouped(planned.offloaded));
  }
  return text + ".\n";
}

std::string notes(PlanResult const& result) {
  std::string text = "* as requested\n";
  for (auto const& stage : result.stages) {
    if (!stage.plan) {
      text += fmt::format("stage {} is refused: {}\n", stage.stage, stage.refused);
    }
  }
  for (auto const& note : result.asked_for.notes) {
    text += note + ".\n";
  }
  if (auto const& [parameters, count, bytes] = result.asked_for.persistent; parameters > 0) {
    text += fmt::format("{} with {} {} whole on every rank, in {}.\n", counted(parameters, "persistent parameter"),
                        counted(count, "element"), parameters == 1 ? "is" : "are", readable_bytes(bytes));
  }
  if (auto const& servers = result.asked_for.servers; servers.count > 0) {
    text += fmt::format(
        "The table is of a worker; each of {} holds {}, of which the optimizer has {}, and in a step receives {} and "
        "sends {}.\n",
        counted(servers.count, "parameter server"), readable_bytes(servers.bytes.total()),
        readable_bytes(servers.bytes.optimizer), readable_bytes(servers.received_bytes),
        readable_bytes(servers.sent_bytes));
  }
  text += about_activations(result.asked_for);
  text += fmt::format("A checkpoint takes {} on the disk, at every stage.\n",
                      readable_bytes(result.asked_for.checkpoint_bytes));
  if (stages_checkpoints(result)) {
    text += "Staging is memory of the host beside the total, from a rank's first save on.\n";
  }
  if (result.device_bytes) {
    text += "What is left is for activations and everything else that the engine does not hold.\n";
  }
  return text;
}

std::string tiers_text(StageAdvice const& stage, DeviceKind device, std::int64_t device_bytes) {
  auto const fits = [&](TierSaving const& tier) { return tier.total <= device_bytes ? "fits" : "does not fit either"; };
  std::string text;
  if (auto const& states = stage.states) {
    bool const on_gpu = device == DeviceKind::cuda;
    text += fmt::format(
        "- {}stage {} with zero_optimization.offload_optimizer {} and sub_group_size {} needs {}: it {}; {} are {} of "
        "each rank, all of which a step reads and writes\n",
        on_gpu ? "" : "on CPUs ", stage.stage,
        on_gpu ? R"({"device": "cpu"})" : R"({"device": "nvme", "nvme_path": ...})", states->count,
        readable_bytes(states->total), fits(*states), readable_bytes(states->in_tier),
        on_gpu ? "in the host's memory" : "on the disk");
  }
  if (auto const& parameters = stage.parameters) {
    text += fmt::format(
        R"(- on CPUs stage {} with zero_optimization.offload_param {{"device": "nvme", "nvme_path": ..., "max_in_cpu": 0, "buffer_size": {}}}{} needs {}: it {}; {} are on the disk of each rank, which gathers read and updates write)"
        "\n",
        stage.stage, parameters->count, stage.states ? " beside that" : "", readable_bytes(parameters->total),
        fits(*parameters), readable_bytes(parameters->in_tier));
  }
  return text;
}

std::string keys_text(StageAdvice const& stage, std::int64_t device_bytes) {
  if (stage.savings.empty()) {
    return fmt::format("- at stage {} no key of the file saves memory\n", stage.stage);
  }
  std::string text;
  for (auto const& saving : stage.savings) {
    text += fmt::format("- at stage {}, {}: {} saves {} per rank{}\n", stage.stage, saving.key, saving.value,
                        readable_bytes(saving.bytes), saving.numbers_differ ? ", and changes rounding" : "");
  }
  auto const fits = stage.total_with_savings <= device_bytes ? "fits" : "does not fit either";
  auto const together = std::ranges::count(stage.savings, false, &Saving::numbers_differ);
  if (together > 0) {
    text += fmt::format("- stage {} with {} needs {}: it {}\n", stage.stage,
                        together == 1 ? "the key that changes no rounding" : "all keys that change no rounding",
                        readable_bytes(stage.total_with_savings), fits);
  }
  return text;
}

std::string advice_text(Advice const& advice, PlanResult const& result, Paper const& paper) {
  auto const device = *result.device_bytes;
  std::string text = fmt::format(
      "\n{}. What would change that:\n",
      paper.bad(fmt::format("Stage {} does not fit into {}", stage_asked_for(result), readable_bytes(device))));
  if (advice.smallest_stage) {
    text += fmt::format("- zero_optimization.stage: {} fits on these ranks\n", *advice.smallest_stage);
  } else {
    text += fmt::format("- no stage fits on {}\n", counted(result.asked_for.world, "rank"));
  }
  if (advice.world_for_stage_3) {
    text += fmt::format("- stage 3 fits on {} ranks, the first power of two{}\n", grouped(*advice.world_for_stage_3),
                        advice.worlds_refused ? " that suits the file's batch sizes" : "");
  } else if (!advice.smallest_stage) {
    text += fmt::format("- stage 3 fits on no power of two up to {} ranks\n", grouped(largest_world));
  }
  for (auto const& stage : advice.stages) {
    text += keys_text(stage, device) + tiers_text(stage, result.input.options.device, device);
  }
  if (advice.world_with_savings) {
    text += fmt::format("- stage 3 with these keys fits on {} ranks\n", grouped(*advice.world_with_savings));
  }
  if (!advice.smallest_stage) {
    text +=
        fmt::format("- slots hold whole units: the largest, \"{}\", has {}; smaller units need less\n",
                    result.asked_for.largest_flat_unit, counted(result.asked_for.largest_flat_unit_count, "parameter"));
  }
  return text;
}

}  // namespace

std::string as_text(PlanResult const& result, Paper const& paper) {
  auto text = headline(result) + table(result, paper) + notes(result) + pipeline_table(result, paper);
  if (result.advice) {
    text += advice_text(*result.advice, result, paper);
  }
  return text;
}

}  // namespace zeroth::tools
