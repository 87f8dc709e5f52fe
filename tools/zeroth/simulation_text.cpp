// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "job_options.hpp"
#include "lanes.hpp"
#include "readable.hpp"
#include "simulation.hpp"
#include "text_table.hpp"

namespace zeroth::tools {
namespace {

constexpr int most_lane_columns = 96, least_lane_columns = 10;
constexpr int beside_lane = 11;  // a lane's name and delimiters

struct Scales {
  Scale time, bytes;
};

/// Units that fit the stage with the smallest numbers.
Scales scales_of(Simulations const& simulations) {
  auto least_ms = std::numeric_limits<double>::infinity();
  auto least_bytes = least_ms;
  for (auto const& stage : simulations.stages) {
    if (stage.result) {
      least_ms = std::min(least_ms, stage.result->step_ms);
      least_bytes = std::min(least_bytes, static_cast<double>(stage.result->memory.total()));
    }
  }
  return {scale_of_ms(least_ms), scale_of_bytes(least_bytes)};
}

/// ", each on 1 node", or the maximum number of nodes.
std::string where_groups_are(GroupSettings const& groups, int ranks_per_node) {
  int most = 0;
  for (int group = 0; group < groups.count && groups.count > 1; ++group) {
    auto const first = group * groups.size;
    most = std::max(most, (first + groups.size - 1) / ranks_per_node - first / ranks_per_node + 1);
  }
  return most == 0 ? std::string{} : fmt::format(", each on {}{}", most > 1 ? "up to " : "", counted(most, "node"));
}

/// "math at 68 % of 989 TFLOP/s, attention at 32 %, 176 passes over activations, 8 passes over parameters
/// (eager code)".
std::string about_rates(simulate::Machine const& machine, std::string const& code, Dtype compute) {
  auto const& rates = machine.rates;
  auto const attention = rates.attention_efficiency > 0 ? fmt::format("at {:.3g} %", 100 * rates.attention_efficiency)
                                                        : std::string{"as well"};
  auto const passes = [](double count) { return count > 0 ? fmt::format("{:g} passes", count) : "no pass"; };
  return fmt::format("math at {:.3g} % of {:.4g} TFLOP/s, attention {}, {} over activations, {} over parameters{}",
                     100 * rates.math_efficiency, 1e-12 * machine.peak(compute), attention,
                     passes(rates.activation_passes), passes(rates.parameter_passes),
                     code.empty() ? "" : fmt::format(" ({} code)", code));
}

/// "; forward again in backward", with the number of units and the bytes that their inputs move.
std::string about_recomputation(Plan const& plan, SimulationRequest const& request) {
  auto const& planned = plan.activations;
  if (!request.recompute && planned.recomputed == 0) {
    return {};
  }
  bool const all = request.recompute || planned.recomputed == plan.units;
  auto const which =
      all ? std::string{} : fmt::format(" of {} of {}", grouped(planned.recomputed), counted(plan.units, "unit"));
  auto const moved = planned.offloaded == 0
                         ? std::string{}
                         : fmt::format(", whose inputs write {} and read {}, not timed",
                                       readable_bytes(planned.written_bytes), readable_bytes(planned.read_bytes));
  return fmt::format("; forward{} again in backward{}", which, moved);
}

std::string headline(Simulations const& simulations, SimulationRequest const& request) {
  auto const& settings = simulations.plan.settings;
  auto const& machine = request.machine;
  return fmt::format(
      "{}: {} in {}; {}\n"
      "{}: stage {} in {}{}{}{}\n"
      "{} on {}, {} per node\n"
      "{}\n"
      "{} a step: {} x {} x {} x {}{}\n\n",
      simulations.model.name, counted(simulations.plan.parameter_count, "parameter"),
      counted(simulations.plan.units, "unit"), simulations.model.about, name_of_config(request.config_file),
      settings.stage, name_of(settings.precision.compute), settings.overlap_comm ? ", overlap" : ", no overlap",
      about_groups(settings.groups), where_groups_are(settings.groups, machine.ranks_per_node),
      counted(request.world, "rank"), machine.name, machine.ranks_per_node,
      about_rates(machine, request.code, settings.precision.compute), counted(simulations.tokens_per_step, "token"),
      counted(simulations.plan.data_ranks, simulations.plan.servers.count > 0 ? "worker" : "rank") +
          (simulations.plan.pipeline.empty() ? "" : " of a stage"),
      counted(settings.batch.accumulation, "micro-step"), counted(settings.batch.micro, "sample"),
      counted(request.context, "token"), about_recomputation(simulations.plan, request));
}

Row row_of(SimulatedStage const& stage, Simulations const& all, SimulationRequest const& request,
           Scales const& scales) {
  Row row{fmt::format("{}{}", name_of(stage), stage.asked_for ? " *" : "")};
  if (!stage.result) {
    row.emplace_back("refused, see below");
    return row;
  }
  auto const& result = *stage.result;
  auto const& first = all.stages.front().result;
  row.push_back(in(scales.time, result.step_ms));
  row.push_back(first ? fmt::format("{:.3f}", result.step_ms / first->step_ms) : "");
  row.push_back(in(scales.time, result.exposed_comm_ms));
  if (request.config.tensor_ranks() > 1) {
    row.push_back(in(scales.time, result.tensor_ms));
  }
  if (!result.pipeline.empty()) {
    row.push_back(in(scales.time, result.bubble_ms));
    row.push_back(fmt::format("{:.1f} %", 100 * result.bubble_ms / result.step_ms));
  }
  if (!all.tier().empty()) {
    row.push_back(in(scales.time, result.exposed_io_ms));
  }
  row.push_back(fmt::format("{:.1f} %", 100 * result.mfu));
  row.push_back(grouped(static_cast<std::int64_t>(std::min(stage.tokens_per_s, 1e18))));
  row.push_back(in(scales.bytes, result.bytes_sent));
  row.push_back(in(scales.bytes, result.memory.total()));
  if (auto const device = request.machine.device_memory_bytes; device > 0) {
    row.push_back(left_of(scales.bytes, device - result.memory.total()));
  }
  row.push_back(fmt::format("{} + {}", result.report.parameter_slots_used, result.report.gradient_slots_used));
  row.push_back(grouped(result.report.prefetch_misses));
  return row;
}

std::string table(Simulations const& simulations, SimulationRequest const& request, Paper const& paper) {
  auto const scales = scales_of(simulations);
  auto const& [time, bytes] = scales;
  Row head{"", fmt::format("step {}", time.name), "of " + name_of(simulations.stages.front()),
           fmt::format("exposed {}", time.name)};
  if (request.config.tensor_ranks() > 1) {
    head.push_back(fmt::format("tensor {}", time.name));
  }
  if (!simulations.plan.pipeline.empty()) {
    head.push_back(fmt::format("bubble {}", time.name));
    head.emplace_back("of step");
  }
  if (auto const tier = simulations.tier(); !tier.empty()) {
    head.push_back(fmt::format("{} {}", tier, time.name));
  }
  head.insert(head.end(), {"MFU", "tokens/s", fmt::format("{} sent", bytes.name), fmt::format("{} held", bytes.name)});
  if (auto const device = request.machine.device_memory_bytes; device > 0) {
    head.push_back(fmt::format("left of {}", in(bytes, device)));
  }
  head.insert(head.end(), {"slots", "misses"});
  std::vector<Row> rows{head};
  for (auto const& stage : simulations.stages) {
    rows.push_back(row_of(stage, simulations, request, scales));
  }
  return aligned(rows, paper);
}

/// Orders of axes differ in communication, but not in memory.
std::string table_of_orders(Simulations const& simulations, SimulationRequest const& request, Paper const& paper) {
  auto const time = scales_of(simulations).time;
  bool const divides = request.config.tensor_ranks() > 1, has_stages = !simulations.plan.pipeline.empty();
  std::vector<Row> rows{{"nearest first", fmt::format("step {}", time.name), "of first"}};
  auto const add = [&](Row& row, std::string const& tensor, std::string const& bubble, std::string const& data) {
    row.insert(row.end(), divides ? 1 : 0, tensor);
    row.insert(row.end(), has_stages ? 1 : 0, bubble);
    row.push_back(data);
  };
  add(rows.front(), "tensor " + std::string{time.name}, "pipeline " + std::string{time.name},
      "data " + std::string{time.name});
  rows.front().insert(rows.front().end(), {"MFU", "tokens/s"});
  for (auto const& order : simulations.stages) {
    Row row{fmt::format("{}{}", name_of(order), order.asked_for ? " *" : "")};
    if (order.result) {
      auto const& result = *order.result;
      row.push_back(in(time, result.step_ms));
      row.push_back(fmt::format("{:.3f}", result.step_ms / simulations.stages.front().result->step_ms));
      add(row, in(time, result.tensor_ms), in(time, result.bubble_ms), in(time, result.exposed_comm_ms));
      row.push_back(fmt::format("{:.1f} %", 100 * result.mfu));
      row.push_back(grouped(static_cast<std::int64_t>(std::min(order.tokens_per_s, 1e18))));
    } else {
      row.emplace_back("refused, see below");
    }
    rows.push_back(row);
  }
  std::string text =
      aligned(rows, paper) +
      "* as a mesh counts its ranks. Along the first axis ranks are neighbours on a node, along the last "
      "one they are farthest apart.\n"
      "A rank waits for sums of tensor ranks, for other stages of the pipeline (bubble), and for "
      "collectives along data.\n";
  for (auto const& order : simulations.stages) {
    if (!order.result) {
      text += fmt::format("{} is refused: {}\n", name_of(order), order.refused);
    }
  }
  return text;
}

std::string notes(Simulations const& simulations) {
  auto const& settings = simulations.plan.settings;
  auto const& asked_for = simulations.asked_for();
  std::string text =
      "* as requested. Exposed: math waits for communication. Sent, held: by a rank, without activations.\nSlots: most "
      "in use, for parameters + gradients. Misses: gathers that began only when their unit was needed.\n";
  if (simulations.plan.tensor_ranks > 1) {
    text += "Tensor: math waits for sums of tensor ranks, which are not in what is exposed.\n";
  }
  if (auto const& stages = asked_for.pipeline; !stages.empty()) {
    text += fmt::format(
        "A pipeline of {} of {}, {}. Bubble: ranks wait for other stages. Times are means over stages, bytes the most "
        "of "
        "any.\n",
        counted(std::ssize(stages), "stage"), counted(simulations.plan.data_ranks, "rank"),
        name_of(settings.pipeline.schedule));
  }
  if (auto const servers = simulations.plan.servers.count; servers > 0) {
    auto const& server = asked_for.server;
    text += fmt::format("The row is of a worker. Each of {} sends {} in a step, and holds {}.\n",
                        counted(servers, "parameter server"), readable_bytes(server.bytes_sent),
                        readable_bytes(server.memory.total()));
    if (settings.parameter_server.staleness > 0) {
      text += "Workers may be stale: times are means over several steps of all workers.\n";
    }
  }
  if (simulations.plan.bytes_on_disk() > 0) {
    text += "Disk: updates wait for states on a disk.\n";
  } else if (simulations.plan.host.bytes > 0) {
    text += "Host: updates wait for states in the host's memory.\n";
  }
  for (auto const& stage : simulations.stages) {
    if (!stage.result) {
      text += fmt::format("{} is refused: {}\n", name_of(stage), stage.refused);
    }
  }
  if (auto const misses = asked_for.report.prefetch_misses; misses > 0) {
    text += fmt::format(
        "{} at stage {}: more is gathered ahead with a greater stage3_prefetch_bucket_size ({}) or\n"
        "stage3_max_live_parameters ({}, of the unit in use and all ahead). The largest unit has {}.\n",
        misses == 1 ? "1 miss" : grouped(misses) + " misses", settings.stage, grouped(settings.prefetch_count),
        grouped(settings.max_live_count), counted(simulations.plan.largest_flat_unit_count, "parameter"));
  }
  return text;
}

/// A line for each stage of a pipeline: the compute stream of its first rank.
std::string lanes_of_stages(Simulations const& simulations, int columns) {
  auto const& asked_for = simulations.asked_for();
  auto const ranks = asked_for.timelines.size() / asked_for.pipeline.size();
  std::string text;
  for (std::size_t stage = 0; stage < asked_for.pipeline.size(); ++stage) {
    text += lane_of(asked_for.timelines[stage * ranks], "compute", fmt::format("stage {}", stage),
                    1e3 * asked_for.step_ms, columns);
  }
  bool const divided = text.find('I') != std::string::npos;
  return text + (divided ? "F forward, I backward by inputs, W by weights, U update; . waits\n"
                         : "F forward, B backward, U update; . waits\n");
}

std::string lanes(Simulations const& simulations, SimulationRequest const& request, Paper const& paper) {
  int const columns = paper.columns > 0 ? std::clamp(paper.columns - beside_lane, least_lane_columns, most_lane_columns)
                                        : most_lane_columns;
  auto const& asked_for = simulations.asked_for();
  auto const scale = scale_of_ms(asked_for.step_ms);
  auto const tensor = request.config.tensor_ranks();
  auto text =
      fmt::format("\nStage {}, {} {}:\n", simulations.plan.settings.stage, in(scale, asked_for.step_ms), scale.name);
  if (!asked_for.pipeline.empty()) {
    return text + lanes_of_stages(simulations, columns);
  }
  for (std::size_t rank = 0; rank < asked_for.timelines.size(); ++rank) {
    auto const [first, slowdown] = asked_for.ranks[rank];
    if (rank > 0 && slowdown == 1) {
      continue;  // it equals rank 0
    }
    if (!request.options.slowdown.empty()) {
      text += tensor == 1 ? fmt::format("rank {}", first) : fmt::format("ranks {} to {}", first, first + tensor - 1);
      text += slowdown == 1 ? "\n" : fmt::format(", whose math takes {:g} times as long\n", slowdown);
    }
    text += lanes_of(asked_for.timelines[rank], 1e3 * asked_for.step_ms, columns);
  }
  return text + "F forward, B backward, U update; G gather, P publish, R reduce, D decide; " +
         (tensor > 1 ? "S sum of tensor ranks; " : "") +
         (simulations.tier().empty() ? std::string{} : fmt::format("R read, W write of the {}; ", simulations.tier())) +
         ". waits\n";
}

}  // namespace

std::string as_text(Simulations const& simulations, SimulationRequest const& request, Paper const& paper) {
  if (request.permute) {
    return headline(simulations, request) + table_of_orders(simulations, request, paper);
  }
  return headline(simulations, request) + table(simulations, request, paper) + notes(simulations) +
         lanes(simulations, request, paper);
}

}  // namespace zeroth::tools
