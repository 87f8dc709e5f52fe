// SPDX-License-Identifier: Apache-2.0
/// Replaces a machine's links by measured ones, for a simulation.
#pragma once
#include <filesystem>

#include <zeroth/simulate/machine.hpp>

namespace zeroth::tools {

/// `machine`, for a job of `ranks` ranks, with the links that `file` was measured on: lines printed by
/// bench_collectives with that number of ranks on the target machine. Fits a start and a bandwidth to its all-gathers
/// and reduce-scatters, by least squares of relative errors; an all-reduce counts as one of each. The fit replaces both
/// links, rings and trees. Throws ConfigError, which names file, line, key and what is allowed.
[[nodiscard]] simulate::Machine with_measured_links(simulate::Machine machine, std::filesystem::path const& file,
                                                    int ranks);

}  // namespace zeroth::tools
