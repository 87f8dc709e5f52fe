#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "model_facts.hpp"
#include "plan_output.hpp"
#include "text_table.hpp"

namespace zeroth::tools {
namespace {

struct Scale {
  std::string_view name;
  double bytes;
};
constexpr Scale gib{"GiB", 0x1p30};
constexpr Scale mib{"MiB", 0x1p20};
constexpr Scale kib{"KiB", 0x1p10};

Scale scale_of(std::vector<StagePlan> const& stages) {
  auto least = std::numeric_limits<double>::infinity();
  for (auto const& stage : stages) {
    least = std::min(least, stage.memory ? static_cast<double>(stage.memory->total()) : least);
  }
  return least >= gib.bytes ? gib : mib;
}

std::string in(Scale const& scale, std::int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / scale.bytes);
}

std::string headline(PlanResult const& result) {
  auto const facts = facts_of(result.model.model);
  auto const settings = settings_of(result.plan);
  auto const& precision = settings.precision;
  auto const file = result.config_file.empty()
                        ? std::string{"no stage file: mixed precision with 16 bytes per parameter, bf16, as in the ZeRO "
                                      "paper; all else default"}
                        : fmt::format("{}: stage {}", result.config_file, settings.stage);
  return fmt::format(
      "{}: {} parameters in {} unit{}; {}\n"
      "{} rank{}; {}\n"
      "compute {}, gradients {}, reduced in {}, accumulated in {}, master fp32; {} micro-step{}\n\n",
      result.model.name, grouped(facts.parameters), facts.units, facts.units == 1 ? "" : "s", result.model.about,
      grouped(result.plan.world), result.plan.world == 1 ? "" : "s", file, name_of(precision.compute),
      name_of(precision.gradient), name_of(precision.reduce), name_of(precision.accumulate),
      settings.batch.accumulation, settings.batch.accumulation == 1 ? "" : "s");
}

Row row_of(StagePlan const& stage, PlanResult const& result, Scale const& scale) {
  bool const own = !result.config_file.empty() && stage.stage == stage_asked_for(result);
  Row row{fmt::format("stage {}{}", stage.stage, own ? " *" : "")};
  if (!stage.memory) {
    row.emplace_back("refused, see below");
    return row;
  }
  auto const& [states, padding] = *stage.memory;
  auto const total = stage.memory->total();
  for (auto const bytes :
       {states.parameters, states.gradients, states.optimizer, states.slots, states.scratch, padding, total}) {
    row.push_back(in(scale, bytes));
  }
  auto const& whole = result.stages.front().memory;
  row.push_back(whole && stage.stage > 0 ? fmt::format("{:.1f} %", 100.0 - 100.0 * static_cast<double>(total) /
                                                                               static_cast<double>(whole->total()))
                                         : "");
  row.push_back(in(scale, stage.bytes_sent_per_step));
  if (result.device_bytes) {
    auto const left = *result.device_bytes - total;
    row.push_back(left >= 0 ? in(scale, left) : in(scale, -left) + " short");
  }
  return row;
}

std::string table(PlanResult const& result) {
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
  if (result.device_bytes) {
    head.push_back(fmt::format("left of {}", in(scale, *result.device_bytes)));
  }
  std::vector<Row> rows{head};
  for (auto const& stage : result.stages) {
    rows.push_back(row_of(stage, result, scale));
  }
  return aligned(rows);
}

std::string notes(PlanResult const& result) {
  std::string text;
  if (!result.config_file.empty()) {
    text += "* what the file says\n";
  }
  for (auto const& stage : result.stages) {
    if (!stage.memory) {
      text += fmt::format("stage {} is refused: {}\n", stage.stage, stage.refused);
    }
  }
  if (result.device_bytes) {
    text += "What is left is for activations and everything else that the engine does not hold.\n";
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

std::string advice_text(Advice const& advice, PlanResult const& result) {
  auto const device = *result.device_bytes;
  std::string text = fmt::format("\nStage {} does not fit into {}. What would change that:\n", stage_asked_for(result),
                                 readable_bytes(device));
  if (advice.smallest_stage) {
    text += fmt::format("- zero_optimization.stage: {} fits on these ranks\n", *advice.smallest_stage);
  } else {
    text +=
        fmt::format("- no stage fits on {} rank{}\n", grouped(result.plan.world), result.plan.world == 1 ? "" : "s");
  }
  if (advice.world_for_stage_3) {
    text += fmt::format("- stage 3 fits on {} ranks, the first power of two{}\n", grouped(*advice.world_for_stage_3),
                        advice.worlds_refused ? " that suits the file's batch sizes" : "");
  } else if (!advice.smallest_stage) {
    text += fmt::format("- stage 3 fits on no power of two up to {} ranks\n", grouped(largest_world));
  }
  for (auto const& stage : advice.stages) {
    text += keys_text(stage, device);
  }
  if (advice.world_with_savings) {
    text += fmt::format("- stage 3 with these keys fits on {} ranks\n", grouped(*advice.world_with_savings));
  }
  if (!advice.smallest_stage) {
    text += fmt::format("- slots hold whole units: the largest, \"{}\", has {} parameters; smaller units need less\n",
                        advice.largest_unit, grouped(advice.largest_unit_count));
  }
  return text;
}

}  // namespace

std::string readable_bytes(std::int64_t bytes) {
  auto const amount = static_cast<double>(bytes);
  if (amount < kib.bytes) {
    return fmt::format("{} B", bytes);
  }
  auto const& scale = amount < mib.bytes ? kib : (amount < gib.bytes ? mib : gib);
  return fmt::format("{} {}", in(scale, bytes), scale.name);
}

std::string as_text(PlanResult const& result) {
  auto text = headline(result) + table(result) + notes(result);
  if (result.advice) {
    text += advice_text(*result.advice, result);
  }
  return text;
}

}  // namespace zeroth::tools
