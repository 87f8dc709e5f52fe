// SPDX-License-Identifier: Apache-2.0
/// Links as they were measured, for a simulation.
#pragma once
#include <filesystem>

#include <zeroth/simulate/machine.hpp>

namespace zeroth::tools {

/// `machine`, for a job of `ranks` ranks, with the links that `file` was measured on: lines that bench_collectives
/// prints, of as many ranks where the job is to run. Its all-gathers and reduce-scatters are fitted by a start and a
/// bandwidth, with the least sum of squares of relative errors; all-reduces are taken to be one of each. What is fitted
/// takes the place of both links, rings and trees. Throws ConfigError naming file, line, key and what is allowed.
[[nodiscard]] simulate::Machine with_measured_links(simulate::Machine machine, std::filesystem::path const& file,
                                                    int ranks);

}  // namespace zeroth::tools
