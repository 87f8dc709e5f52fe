// SPDX-License-Identifier: Apache-2.0
/// main() of version 2's tests; version 3 has a class for it, too.
#define CATCH_CONFIG_RUNNER
#include "support/catch.hpp"

int main(int argument_count, char** arguments) { return Catch::Session().run(argument_count, arguments); }
