// SPDX-License-Identifier: Apache-2.0
/// Arguments of the programs of random jobs.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>

#include "jobs/drawn.hpp"

namespace zeroth::testing::jobs {

struct Arguments {
  std::optional<std::uint64_t> seed;  ///< Default: from the clock.
  std::optional<std::uint64_t> only;
  std::int64_t jobs = std::numeric_limits<std::int64_t>::max();
  double minutes = std::numeric_limits<double>::infinity();
  bool pairs = false;
  bool shrink = false;
  Given given;
};

/// If the arguments are invalid, prints how to call the program and ends it.
[[nodiscard]] Arguments read_arguments(int count, char** texts);
/// A seed from the clock, small enough to type.
[[nodiscard]] std::uint64_t seed_of_now();

}  // namespace zeroth::testing::jobs
