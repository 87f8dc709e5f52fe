// SPDX-License-Identifier: Apache-2.0
// Catch2's second version is compiled where this is defined; the third has a class for it, too.
#define CATCH_CONFIG_RUNNER
#include "support/catch_runner.hpp"

#include "support/catch.hpp"

int zeroth::testing::run_cases(int argument_count, char** arguments) {
  return Catch::Session().run(argument_count, arguments);
}
