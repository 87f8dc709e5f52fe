// SPDX-License-Identifier: Apache-2.0
/// Answers questions about training with Zeroth without training, starts it, again where it failed, and looks into
/// what it saved.
///
///   zeroth plan --model 7.5B --ranks 64
///   zeroth simulate --model 7.5B --ranks 64 --machine 8xH100
///   zeroth config ds_config.json --given values.json
///   zeroth run --ranks 4 --max-restarts 3 -- train_gpt --config zero3.json ...
///   zeroth checkpoint verify saved
///   zeroth env
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <new>
#include <ostream>
#include <sstream>

#include <zeroth/core/standard_streams.hpp>
#include <zeroth/version.hpp>

#include "checkpoint_command.hpp"
#include "config_command.hpp"
#include "env_command.hpp"
#include "mistyped.hpp"
#include "plan_command.hpp"
#include "run_command.hpp"
#include "simulate_command.hpp"

namespace {

int run(int argc, char** argv, std::ostream& out) {
  CLI::App app{"What training with ZeRO stages 0 to 3 takes, before it is started; its start; and what it saves.",
               "zeroth"};
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("zeroth {}", zeroth::version));
  int status = 0;
  try {
    zeroth::tools::add_plan_command(app, out);
    zeroth::tools::add_simulate_command(app, out);
    zeroth::tools::add_config_command(app, out, status);
    zeroth::tools::add_run_command(app, status);
    zeroth::tools::add_checkpoint_command(app, out, status);
    zeroth::tools::add_env_command(app, out);
    app.parse(argc, argv);
    return status;
  } catch (CLI::ParseError const& error) {
    std::ostringstream complaint;
    status = app.exit(error, out, complaint) == 0 ? 0 : 2;
    complaint << zeroth::tools::what_was_meant(app, argc, argv, error);
    zeroth::write_error(complaint.str());
    return status;
  } catch (std::bad_alloc const&) {
    zeroth::write_error("zeroth: out of memory: what was asked for takes more than this process can have\n");
    return 1;
  } catch (std::exception const& error) {
    zeroth::write_error(fmt::format("zeroth: {}\n", error.what()));
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  zeroth::keep_standard_streams();
  std::ostringstream out;
  int const status = run(argc, argv, out);
  zeroth::write_output(out.str());
  return zeroth::end_output("zeroth", status);
}
