// SPDX-License-Identifier: Apache-2.0
/// Catch2's own code, compiled once for all programs of tests, whatever their main() does around it.
#pragma once

namespace zeroth::testing {

/// Runs the cases that the command line names; the exit status of a program of tests.
int run_cases(int argument_count, char** arguments);

}  // namespace zeroth::testing
