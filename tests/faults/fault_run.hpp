// SPDX-License-Identifier: Apache-2.0
/// Runs fault_program and looks at what it left behind.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/child.hpp"

namespace zeroth::testing {

/// fault_program with `arguments`, alone: ranks are threads.
[[nodiscard]] Child::Options fault_program(std::vector<std::string> const& arguments, Folder const& folder);
/// The same under mpirun.
[[nodiscard]] Child::Options fault_program_under_mpi(int ranks, std::vector<std::string> const& arguments,
                                                     Folder const& folder);

/// What is wrong with the flight record of `rank` in `folder`; empty if it is there, whole, and its reason contains
/// `reason`.
[[nodiscard]] std::string problem_of_flight(std::filesystem::path const& folder, int rank, int world,
                                            std::string const& reason);
/// Of the ranks in `ranks`, the first one.
[[nodiscard]] std::string problem_of_flights(std::filesystem::path const& folder, std::vector<int> const& ranks,
                                             int world, std::string const& reason);
/// The process that `rank` said it is.
[[nodiscard]] int process_of(std::string const& output, int rank);

}  // namespace zeroth::testing
