// SPDX-License-Identifier: Apache-2.0
/// The choice of cuBLASLt's algorithms.
#pragma once
#include <filesystem>

#include <zeroth/comm/job.hpp>

#include "math_library.hpp"

namespace gpt::gpu {

/// Reads the file of --algorithms; an empty path leaves the choice to cuBLASLt. Collective; waits. Throws ConfigError
/// if the file is wrong, or another one than rank 0's.
[[nodiscard]] MathChoice choose(zeroth::Job& job, std::filesystem::path const& file);

}  // namespace gpt::gpu
