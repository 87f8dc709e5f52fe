/// Answers questions about training with Zeroth without training.
///
///   zeroth plan --model 7.5B --ranks 64
///   zeroth simulate --model 7.5B --ranks 64 --machine 8xH100
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>

#include "plan_command.hpp"
#include "simulate_command.hpp"

int main(int argc, char** argv) {
  CLI::App app{"What training with ZeRO stages 0 to 3 takes, before it is started.", "zeroth"};
  app.require_subcommand(1);
  try {
    zeroth::tools::add_plan_command(app, std::cout);
    zeroth::tools::add_simulate_command(app, std::cout);
    app.parse(argc, argv);
    std::cout.flush();
    if (!std::cout) {
      std::fputs("zeroth: standard output cannot be written\n", stderr);
      return 1;
    }
    return 0;
  } catch (CLI::ParseError const& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : 2;
  } catch (std::exception const& error) {
    std::fputs(fmt::format("zeroth: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}
