// SPDX-License-Identifier: Apache-2.0
/// Seeds of tests that draw anew in every run.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <random>

namespace zeroth::testing {

/// A new seed, or ZEROTH_SEED's, which repeats a run. Tests print it where they fail.
[[nodiscard]] inline std::uint64_t fresh_seed() {
  char const* const given = std::getenv("ZEROTH_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

}  // namespace zeroth::testing
