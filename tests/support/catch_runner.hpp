// SPDX-License-Identifier: Apache-2.0
/// Catch2's own code, compiled once for all test programs, whatever their main() does around it.
#pragma once

namespace zeroth::testing {

/// Runs the cases that the command line names; returns the exit status of a test program.
int run_cases(int argument_count, char** arguments);

}  // namespace zeroth::testing
