// SPDX-License-Identifier: Apache-2.0
/// Runs fault_program and checks the files that it leaves.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/child.hpp"

namespace zeroth::testing {

/// fault_program with `arguments` in one process: ranks are threads.
[[nodiscard]] Child::Options fault_program(std::vector<std::string> const& arguments, Folder const& folder);
/// fault_program under mpirun.
[[nodiscard]] Child::Options fault_program_under_mpi(int ranks, std::vector<std::string> const& arguments,
                                                     Folder const& folder);

/// The problem with the flight record of `rank` in `folder`. Empty if it exists, is complete, and its reason contains
/// `reason`.
[[nodiscard]] std::string problem_of_flight(std::filesystem::path const& folder, int rank, int world,
                                            std::string const& reason);
/// The first problem with the flight records of `ranks`; empty if there is none.
[[nodiscard]] std::string problem_of_flights(std::filesystem::path const& folder, std::vector<int> const& ranks,
                                             int world, std::string const& reason);
/// The process id that `rank` printed.
[[nodiscard]] int process_of(std::string const& output, int rank);

}  // namespace zeroth::testing
