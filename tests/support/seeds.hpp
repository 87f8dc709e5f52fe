// SPDX-License-Identifier: Apache-2.0
/// Seeds of tests that draw other numbers in every run.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <random>

namespace zeroth::testing {

/// A new seed, or that of the environment variable ZEROTH_SEED, which repeats a run. Tests print it when they fail.
[[nodiscard]] inline std::uint64_t fresh_seed() {
  char const* const given = std::getenv("ZEROTH_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

}  // namespace zeroth::testing
