// SPDX-License-Identifier: Apache-2.0
/// Command lines of benchmarks.
#pragma once
#include <CLI/CLI.hpp>

namespace zeroth::bench {

/// The allowed range of rounds, sizes and other counts.
inline CLI::Range const count{1, 1'000'000};

}  // namespace zeroth::bench
