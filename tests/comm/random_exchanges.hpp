// SPDX-License-Identifier: Apache-2.0
/// Random collectives of a program, compared with plain arithmetic.
#pragma once
#include <cstdint>
#include <string>

#include "zeroth/comm/job.hpp"

namespace zeroth::comm::conformance {

/// Runs `rounds` of one to three concurrent collectives, drawn from `seed`, which is the same on all ranks: verbs,
/// dtypes, operators, blocks, roots, and how the program waits for them. Describes the first wrong element; empty if
/// all are right.
[[nodiscard]] std::string random_exchanges(Job& job, std::uint64_t seed, int rounds);

}  // namespace zeroth::comm::conformance
