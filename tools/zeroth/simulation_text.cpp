#include <fmt/format.h>

#include "lanes.hpp"
#include "simulation.hpp"
#include "text_table.hpp"

namespace zeroth::tools {
namespace {

constexpr int lane_columns = 96;

Row row_of(SimulatedStage const& stage, Simulations const& all) {
  Row row{fmt::format("stage {}{}", stage.stage, stage.stage == all.stage_asked_for ? " *" : "")};
  if (!stage.result) {
    row.emplace_back("refused, see below");
    return row;
  }
  auto const& result = *stage.result;
  auto const& first = all.stages.front().result;
  row.push_back(fmt::format("{:.2f}", result.step_ms));
  row.push_back(first ? fmt::format("{:.3f}", result.step_ms / first->step_ms) : "");
  row.push_back(fmt::format("{:.2f}", result.exposed_comm_ms));
  row.push_back(fmt::format("{:.1f} %", 100 * result.mfu));
  row.push_back(grouped(static_cast<std::int64_t>(stage.tokens_per_s)));
  row.push_back(fmt::format("{:.2f}", static_cast<double>(result.bytes_sent) / 0x1p30));
  row.push_back(fmt::format("{:.2f}", static_cast<double>(result.memory.total()) / 0x1p30));
  row.push_back(fmt::format("{} + {}", result.report.parameter_slots_used, result.report.gradient_slots_used));
  row.push_back(grouped(result.report.prefetch_misses));
  return row;
}

}  // namespace

std::string as_text(Simulations const& simulations, SimulationRequest const& request) {
  auto const& machine = request.machine;
  auto text = fmt::format("{}\n{} rank{} on {}, {} per node; {} tokens a step, context {}{}\n\n",
                          simulations.model_about, grouped(request.world), request.world == 1 ? "" : "s", machine.name,
                          machine.ranks_per_node, grouped(simulations.tokens_per_step), grouped(request.context),
                          request.recompute ? ", recompute" : "");
  std::vector<Row> rows{
      {"", "step ms", "of stage 0", "exposed ms", "MFU", "tokens/s", "GiB sent", "GiB held", "slots", "misses"}};
  for (auto const& stage : simulations.stages) {
    rows.push_back(row_of(stage, simulations));
  }
  text += aligned(rows);
  for (auto const& stage : simulations.stages) {
    if (!stage.result) {
      text += fmt::format("stage {} is refused: {}\n", stage.stage, stage.refused);
    }
  }
  auto const& own = *simulations.stages[static_cast<std::size_t>(simulations.stage_asked_for)].result;
  if (machine.device_memory_bytes > 0 && own.memory.total() > machine.device_memory_bytes) {
    text += fmt::format(
        "Stage {} does not fit: a rank has {:.2f} GiB. `zeroth plan --device-memory` says what to change.\n",
        simulations.stage_asked_for, static_cast<double>(machine.device_memory_bytes) / 0x1p30);
  }
  text += fmt::format("\n* what is asked for; its step on rank 0:\n{}", lanes_of(own.timelines.front(), lane_columns));
  text += "F forward, B backward, U update; G gather, P publish, R reduce, D decide; . waits\n";
  return text;
}

}  // namespace zeroth::tools
