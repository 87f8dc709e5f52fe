// SPDX-License-Identifier: Apache-2.0
#include "simulate_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <zeroth/core/error.hpp>

#include "job_options.hpp"
#include "measured_links.hpp"
#include "option_values.hpp"
#include "simulation.hpp"

namespace zeroth::tools {
namespace {

constexpr int most_simulated_ranks = 64;  // each rank is a thread
constexpr double largest_slowdown = 1e6;

struct SimulateOptions {
  JobOptions job;
  std::string machine = "8xH100";
  std::string code;
  std::filesystem::path measured_links;
  bool recompute = false, all_ranks = false, schedules = false, permute = false, json = false;
  std::vector<std::string> slow;
  std::filesystem::path trace;
};

/// Parses texts such as "3=1.5": rank 3 takes one and a half times as long.
std::map<int, double> slowdown_of(std::vector<std::string> const& texts, int ranks) {
  std::map<int, double> slowdown;
  for (auto const& text : texts) {
    auto const equals = std::min(text.find('='), text.size());
    auto const rank = whole_number(text.substr(0, equals), 0, ranks - 1);
    auto const factor =
        equals < text.size() ? positive_number(text.substr(equals + 1), largest_slowdown) : std::nullopt;
    if (!rank || !factor) {
      throw CLI::ValidationError{
          "--slow", fmt::format("{}: allowed: RANK=FACTOR, ranks 0 to {}, factors above 0, up to {:g}", text, ranks - 1,
                                largest_slowdown)};
    }
    if (!slowdown.emplace(static_cast<int>(*rank), *factor).second) {
      throw CLI::ValidationError{"--slow", fmt::format("{}: rank {} was given before", text, *rank)};
    }
  }
  return slowdown;
}

/// With parameter servers, every worker is simulated.
void expect_few_workers(int ranks, int servers) {
  if (servers > 0 && ranks - servers > most_simulated_ranks) {
    throw CLI::ValidationError{
        "--ranks", fmt::format("{} with zeroth.parameter_server.servers {}: allowed: at most {} workers, for each is "
                               "simulated",
                               ranks, servers, most_simulated_ranks)};
  }
}

simulate::Options options_of(SimulateOptions const& options, int servers) {
  expect_few_workers(options.job.ranks, servers);
  auto const slowdown = slowdown_of(options.slow, std::max(1, options.job.ranks - servers));
  bool const all_ranks = options.all_ranks || !slowdown.empty();
  if (all_ranks && options.job.ranks - servers > most_simulated_ranks) {
    throw CLI::ValidationError{"--ranks",
                               fmt::format("{} with {}: allowed: at most {}, for each is simulated", options.job.ranks,
                                           options.all_ranks ? "--all-ranks" : "--slow", most_simulated_ranks)};
  }
  return {.all_ranks = all_ranks, .slowdown = slowdown};
}

SimulationRequest request_of(SimulateOptions const& options, SourcedModel const& model, Config config) {
  auto const simulation = options_of(options, config.parameter_server().servers);
  auto const context = context_of(model);
  auto machine = simulate::machine_of(options.machine);
  if (!options.code.empty()) {
    machine = machine.running(options.code);
  }
  if (!options.measured_links.empty()) {
    machine = with_measured_links(std::move(machine), options.measured_links, options.job.ranks);
  }
  return {.config_file = options.job.config_file,
          .config = std::move(config),
          .world = options.job.ranks,
          .machine = std::move(machine),
          .code = options.code,
          .context = context,
          .recompute = options.recompute,
          .schedules = options.schedules,
          .permute = options.permute,
          .options = simulation};
}

void write_trace_of(std::filesystem::path const& file, Simulations const& simulations) {
  std::vector<std::string> events;
  auto const& asked_for = simulations.asked_for();
  for (auto const& timeline : asked_for.timelines) {
    events.push_back(timeline.to_trace_events(asked_for.ranks[events.size()].rank));
  }
  write_trace(file, events);
}

}  // namespace

void add_simulate_command(CLI::App& app, Page& page) {
  auto const options = std::make_shared<SimulateOptions>();  // shared with the callback
  auto* const command = app.add_subcommand("simulate", "Prints the time of a step on a machine, for each stage");
  add_job_options(*command, options->job);
  command
      ->add_option("--machine", options->machine,
                   fmt::format("Machine: {}, or a JSON file", fmt::join(simulate::machine_presets(), ", ")))
      ->capture_default_str();
  command->add_option("--code", options->code,
                      "Kind of training code, if the machine distinguishes it: eager, compiled, fused");
  command->add_option(
      "--measured-links", options->measured_links,
      "Output of bench_collectives, run where the job will run with as many ranks; replaces the machine's links");
  command->add_flag("--recompute", options->recompute, "Recompute each unit's forward in backward");
  auto* const schedules = command->add_flag("--schedules", options->schedules,
                                            "Print a row for each pipeline schedule instead of each ZeRO stage");
  command
      ->add_flag("--permute", options->permute,
                 "Print a row for each order of the mesh's axes, that is, of which axis has neighbours on a node; "
                 "fastest first")
      ->excludes(schedules);
  command->add_flag("--all-ranks", options->all_ranks,
                    fmt::format("Simulate every rank, up to {}, instead of one for all", most_simulated_ranks));
  command->add_option("--slow", options->slow,
                      "RANK=FACTOR: make this rank's math take FACTOR times as long; implies --all-ranks");
  command->add_option("--trace", options->trace, "Write a trace of the step for Chrome or Perfetto");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &page] {
    auto config = config_of(options->job);
    auto wanted = options->job.model;
    wanted.tensor_ranks = config.tensor_ranks();
    wanted.sequence = config.sequence_parallel();
    auto const model = read_model(wanted);
    auto const request = request_of(*options, model, std::move(config));
    auto const simulations = simulate_stages(model, request);
    if (!options->trace.empty()) {
      write_trace_of(options->trace, simulations);
    }
    options->json ? page.add_data(as_json(simulations, request))
                  : page.add_text(as_text(simulations, request, page.paper()));
  });
}

}  // namespace zeroth::tools
