// SPDX-License-Identifier: Apache-2.0
/// The choice of cuBLASLt's algorithms and of the library for attention.
#pragma once
#include <filesystem>
#include <string>

#include <zeroth/comm/job.hpp>

#include "math_library.hpp"

namespace gpt::gpu {

/// Reads the file of --algorithms; an empty path leaves the choice to cuBLASLt. `attention` is the library for it, such
/// as "cuDNN 9.28.1"; empty: own kernels. Collective; waits. Throws ConfigError if the file is wrong, or if a rank has
/// another file or library than rank 0.
[[nodiscard]] MathChoice choose(zeroth::Job& job, std::filesystem::path const& file, std::string const& attention);

}  // namespace gpt::gpu
