// SPDX-License-Identifier: Apache-2.0
// This macro makes version 2 of Catch2 compile its code here; version 3 has a class for it, too.
#define CATCH_CONFIG_RUNNER
#include "support/catch_runner.hpp"

#include "support/catch.hpp"

int zeroth::testing::run_cases(int argument_count, char** arguments) {
  return Catch::Session().run(argument_count, arguments);
}
