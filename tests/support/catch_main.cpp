// SPDX-License-Identifier: Apache-2.0
#include "support/catch_runner.hpp"

int main(int argument_count, char** arguments) { return zeroth::testing::run_cases(argument_count, arguments); }
