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
    R"(A status of 0 (done), 2 (the program or a file is wrong) or 75 (stopped, and saved) ends it, as does any
other that is no failure. After status 1, or a death by a signal, the program is started again 1 s later, then
2 s, 4 s, up to 30 s. A restart that fails again without progress is followed by one with a rank fewer, down
to --min-ranks. SIGTERM, SIGINT and SIGUSR1 are passed on, and nothing is started after them; a second SIGTERM
kills. Where one of several processes fails, the screen says how each has ended, and last the one that failed
first, with the end of its log. The exit status is the program's last one, and 128 + its number where a signal ended that.
docs/restart.md has all of it.
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
  auto* const command = app.add_subcommand("run", "Runs a program as ranks on this machine, and again after failures");
  auto& agent = options->agent;
  command->add_option("--ranks", agent.ranks, "Ranks to run")->required()->transform(whole_from(1, most_ranks));
  command->add_option("--min-ranks", options->min_ranks, "As few may do, where restarts fail; as --ranks otherwise")
      ->transform(whole_from(1, most_ranks));
  command->add_option("--max-restarts", agent.max_restarts, "Restarts in a row without progress")
      ->transform(whole_from(0, most_restarts))
      ->capture_default_str();
  command->add_option("--checkpoint", agent.checkpoint,
                      "Folder whose file `latest` changes when there is progress; without it there never is");
  command
      ->add_option(
          "--transport", options->transport,
          "local: threads of one process; mpi: mpirun's processes; nccl, tcp: processes as torchrun starts them")
      ->check(CLI::IsMember(comm::transport_names()))
      ->capture_default_str();
  command->add_option("--mpirun", agent.mpirun, "With mpi: the command, with its options")->capture_default_str();
  command
      ->add_option("--grace", options->grace_s, "With nccl and tcp: seconds for the others to end after one has failed")
      ->transform(whole_from(0, longest_grace_s))
      ->capture_default_str();
  command
      ->add_option(
          "--log-dir", agent.log_dir,
          "Folder for what ranks print, in place of the screen: run_N/attempt_N/rank_N.log, or ranks.log where "
          "ranks are threads or mpirun's")
      ->check(CLI::Validator{[](std::string const& text) { return text.empty() ? "is empty; allowed: a path" : ""; },
                             "PATH"});
  command->add_flag("--tee", agent.tee, "With --log-dir: and the screen, with the rank before each line");
  command->add_option("program", agent.program, "The program and its arguments, behind --")->required();
  command->footer(footer);
  command->callback([options, &status] { status = run_agent(agent_options(*options)); });
}

}  // namespace zeroth::tools
