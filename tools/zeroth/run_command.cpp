// SPDX-License-Identifier: Apache-2.0
#include "run_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>

#include <zeroth/comm/transport.hpp>

#include "agent.hpp"
#include "option_values.hpp"

namespace zeroth::tools {
namespace {

constexpr int most_ranks = 4096;
constexpr int most_restarts = 1'000'000;
constexpr int longest_grace_s = 86'400;

constexpr auto footer =
    R"(The program is started again if it exits with status 1 or a signal kills it: after 1 s, then 2 s, 4 s, up to 30 s.
It is not started again after status 0 (done), 2 (the program or a file is wrong), 75 (stopped, and saved) or any other.
If a restart fails without progress, the next one has one rank fewer, down to --min-ranks. SIGTERM, SIGINT and SIGUSR1
are passed on, and end the restarts; a second SIGTERM kills. If one of several processes fails, the output says how each
of them ended, and last which failed first, with the end of its log. The exit status is that of the program's last run,
or 128 + N if signal N killed it. See docs/restart.md.
)";

struct RunOptions {
  AgentOptions agent;
  std::optional<int> min_ranks;
  std::string transport = "local";
  int grace_s = 15;
};

AgentOptions agent_options(RunOptions const& options) {
  auto agent = options.agent;
  agent.transport = comm::transport_named(options.transport);
  agent.grace = std::chrono::seconds{options.grace_s};
  agent.min_ranks = options.min_ranks.value_or(agent.ranks);
  if (agent.min_ranks > agent.ranks) {
    throw CLI::ValidationError{"--min-ranks",
                               fmt::format("{}: allowed: up to --ranks {}", agent.min_ranks, agent.ranks)};
  }
  if (agent.tee && agent.log_dir.empty()) {
    throw CLI::ValidationError{"--tee", "needs --log-dir, the folder for the output"};
  }
  if (agent.mpirun.find_first_not_of(' ') == std::string::npos) {
    throw CLI::ValidationError{"--mpirun", "is empty; allowed: a command"};
  }
  return agent;
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
  auto const options = std::make_shared<RunOptions>();  // shared with the callback
  auto* const command =
      app.add_subcommand("run", "Runs a program as ranks on this machine, and restarts it after failures");
  auto& agent = options->agent;
  command->add_option("--ranks", agent.ranks, "Number of ranks")->required()->transform(whole_from(1, most_ranks));
  command
      ->add_option("--min-ranks", options->min_ranks, "Fewest ranks to restart with if restarts keep failing [--ranks]")
      ->transform(whole_from(1, most_ranks));
  command->add_option("--max-restarts", agent.max_restarts, "Most restarts in a row without progress")
      ->transform(whole_from(0, most_restarts))
      ->capture_default_str();
  command->add_option(
      "--checkpoint", agent.checkpoint,
      "Folder of checkpoints; a change of its file `latest` counts as progress, and nothing does without it");
  command
      ->add_option("--transport", options->transport,
                   "local: threads of one process; mpi: processes started by mpirun; nccl, tcp: processes started as "
                   "by torchrun")
      ->check(CLI::IsMember(comm::transport_names()))
      ->capture_default_str();
  command->add_option("--mpirun", agent.mpirun, "With mpi: the mpirun command and its options")->capture_default_str();
  command
      ->add_option("--grace", options->grace_s,
                   "With nccl and tcp: seconds that the other processes have to end after one failed")
      ->transform(whole_from(0, longest_grace_s))
      ->capture_default_str();
  command
      ->add_option("--log-dir", agent.log_dir,
                   "Folder for the ranks' output, instead of the screen: run_N/attempt_N/rank_N.log, or ranks.log for "
                   "threads and mpirun")
      ->check(CLI::Validator{[](std::string const& text) { return text.empty() ? "is empty; allowed: a path" : ""; },
                             "PATH"});
  command->add_flag("--tee", agent.tee, "With --log-dir: also print it, each line with its rank");
  command->add_option("program", agent.program, "The program and its arguments, after --")->required();
  command->footer(footer);
  command->callback([options, &status] { status = run_agent(agent_options(*options)); });
}

}  // namespace zeroth::tools
