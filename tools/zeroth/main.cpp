// SPDX-License-Identifier: Apache-2.0
/// Answers questions about training with Zeroth without training, starts and restarts jobs, and inspects their
/// checkpoints.
///
///   zeroth plan --model 7.5B --ranks 64
///   zeroth simulate --model 7.5B --ranks 64 --machine 8xH100
///   zeroth config ds_config.json --given values.json
///   zeroth run --ranks 4 --max-restarts 3 -- train_gpt --config zero3.json ...
///   zeroth checkpoint verify saved
///   zeroth env
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <new>
#include <sstream>

#include <zeroth/tool/core/standard_streams.hpp>
#include <zeroth/tool/core/terminal.hpp>
#include <zeroth/version.hpp>

#include "checkpoint_command.hpp"
#include "completion.hpp"
#include "config_command.hpp"
#include "env_command.hpp"
#include "mistyped.hpp"
#include "page.hpp"
#include "plan_command.hpp"
#include "run_command.hpp"
#include "simulate_command.hpp"

namespace {

using zeroth::tools::Page;

/// Prints on `page`, and errors on standard error. Returns the exit status.
int run(int argc, char** argv, Page& page) {
  CLI::App app{"Plans, simulates, starts and restarts training with ZeRO stages 0 to 3, and inspects its checkpoints.",
               "zeroth"};
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("zeroth {}", zeroth::version));
  try {
    zeroth::tools::add_plan_command(app, page);
    zeroth::tools::add_simulate_command(app, page);
    zeroth::tools::add_config_command(app, page);
    zeroth::tools::add_run_command(app, page.status);
    zeroth::tools::add_checkpoint_command(app, page);
    zeroth::tools::add_env_command(app, page);
    zeroth::tools::add_completion_commands(app, page);
    app.parse(argc, argv);
    return page.status;
  } catch (CLI::ParseError const& error) {
    std::ostringstream help, complaint;
    int const status = app.exit(error, help, complaint) == 0 ? 0 : 2;
    page.add_text(help.str());
    complaint << zeroth::tools::what_was_meant(app, argc, argv, error);
    zeroth::write_error(complaint.str());
    return status;
  } catch (std::bad_alloc const&) {
    zeroth::write_error("zeroth: out of memory: the request needs more than this process may have\n");
    return 1;
  } catch (std::exception const& error) {
    zeroth::write_error(fmt::format("zeroth: {}\n", error.what()));
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  zeroth::keep_standard_streams();
  Page page{zeroth::tools::Paper{zeroth::terminal_at(STDOUT_FILENO)}};
  int const status = run(argc, argv, page);
  zeroth::write_output(page.all());
  return zeroth::end_output("zeroth", status);
}
