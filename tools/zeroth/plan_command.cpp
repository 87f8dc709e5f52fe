#include "plan_command.hpp"

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "model_options.hpp"
#include "option_values.hpp"
#include "plan_output.hpp"

namespace zeroth::tools {
namespace {

struct PlanOptions {
  ModelRequest model;
  std::string config;
  int ranks = 1;
  std::optional<double> device_memory_gib;
  std::string comm = "local";
  bool json = false;
};

std::map<std::string, comm::Transport> const transports{{"local", comm::Transport::local},
                                                        {"mpi", comm::Transport::mpi}};

/// ZeRO's mixed precision: 2 bytes of parameter, 2 of gradient, 12 of optimizer.
constexpr char const* without_file =
    R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})";

PlanResult make_plan(PlanOptions const& options) {
  auto model = read_model(options.model);
  auto config = options.config.empty() ? Config::from_json(without_file) : Config::from_file(options.config);
  Plan plan{model.model, std::move(config), options.ranks, transports.at(options.comm)};
  PlanResult result{std::move(model), std::move(plan), options.config, {}, {}, {}};
  result.stages = plan_stages(result.plan);
  if (options.device_memory_gib) {
    result.device_bytes = std::llround(*options.device_memory_gib * 0x1p30);
    auto const asked = stage_asked_for(result);
    if (result.stages[static_cast<std::size_t>(asked)].memory->total() > *result.device_bytes) {
      result.advice = advise(result.plan, result.stages, asked, *result.device_bytes);
    }
  }
  return result;
}

}  // namespace

void add_plan_command(CLI::App& app, std::ostream& out) {
  auto const options = std::make_shared<PlanOptions>();  // lives as long as the callback
  auto* const command = app.add_subcommand("plan", "How much memory each stage takes on every rank");
  add_model_options(*command, options->model);
  command->add_option("--config", options->config, "Stage file; without one, 16-bit mixed precision");
  command->add_option("--ranks", options->ranks, "Of the job")->required()->transform(whole_from(1, largest_world));
  command->add_option("--device-memory", options->device_memory_gib, "GiB of a rank, to fit into")
      ->check(positive_up_to(1e6));
  command->add_option("--comm", options->comm, "What ranks talk through; mpi stages messages in memory")
      ->check(CLI::IsMember{{"local", "mpi"}})
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON, in bytes");
  command->callback([options, &out] {
    auto const result = make_plan(*options);
    out << (options->json ? as_json(result) : as_text(result));
  });
}

}  // namespace zeroth::tools
