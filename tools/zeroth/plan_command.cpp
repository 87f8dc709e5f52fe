// SPDX-License-Identifier: Apache-2.0
#include "plan_command.hpp"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "job_options.hpp"
#include "option_values.hpp"
#include "plan_output.hpp"
#include "zeroth/comm/transport.hpp"

namespace zeroth::tools {
namespace {

struct PlanOptions {
  JobOptions job;
  std::optional<double> device_memory_gib;
  std::string comm = "local";
  std::string device = "cpu";
  bool json = false;
};

PlanResult make_plan(PlanOptions const& options) {
  auto const& job = options.job;
  auto config = config_of(job);
  auto wanted = job.model;
  wanted.tensor_ranks = config.tensor_ranks();
  wanted.sequence = config.sequence_parallel();
  auto model = read_model(wanted);
  auto const device = options.device == "cuda" ? DeviceKind::cuda : DeviceKind::cpu;
  PlanInput input{model.model, std::move(config), job.ranks, {comm::transport_named(options.comm), device}};
  if (input.config.pipeline().stages > 1) {
    static_cast<void>(context_of(model));  // throws if the length is unknown: messages depend on it
  }
  auto asked_for = plan_of(input);
  PlanResult result{std::move(model), std::move(input), job.config_file, std::move(asked_for), {}, {}, {}};
  result.stages = plan_stages(result.input);
  if (options.device_memory_gib) {
    result.device_bytes = std::llround(*options.device_memory_gib * 0x1p30);
    if (result.asked_for.bytes.total() > *result.device_bytes) {
      result.advice = advise(result.input, result.stages, stage_asked_for(result), *result.device_bytes);
    }
  }
  return result;
}

}  // namespace

void add_plan_command(CLI::App& app, Page& page) {
  auto const options = std::make_shared<PlanOptions>();  // shared with the callback
  auto* const command = app.add_subcommand("plan", "Prints the memory that each stage needs per rank");
  add_job_options(*command, options->job);
  command
      ->add_option("--device-memory", options->device_memory_gib,
                   "Memory of a rank in GiB; prints advice if the plan does not fit")
      ->check(positive_up_to(1e6));
  command->add_option("--comm", options->comm, "Transport between ranks; mpi and tcp need memory for staging")
      ->check(CLI::IsMember{comm::transport_names()})
      ->capture_default_str();
  command->add_option("--device", options->device, "Device of each rank; with cuda the plan includes host memory")
      ->check(CLI::IsMember{std::vector<std::string>{"cpu", "cuda"}})
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON, with sizes in bytes");
  command->footer(
      fmt::format("The exit status is 0, or {} if the stage needs more than --device-memory.", does_not_fit));
  command->callback([options, &page] {
    auto const result = make_plan(*options);
    options->json ? page.add_data(as_json(result)) : page.add_text(as_text(result, page.paper()));
    page.status = result.advice ? does_not_fit : 0;
  });
}

}  // namespace zeroth::tools
