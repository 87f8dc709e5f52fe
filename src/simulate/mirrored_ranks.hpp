// SPDX-License-Identifier: Apache-2.0
/// Collectives of one rank, under the assumption that all other ranks contribute the same.
#pragma once
#include "zeroth/comm/communicator.hpp"

namespace zeroth::simulate {

/// Moves the values of all-gathers and of all-reduces of fp64, which are those that the engine reads in a step without
/// math. Other operations leave their outputs unchanged. `addends`: the number of ranks that contribute to a sum.
void exchange_with_mirrors(comm::Collective const& collective, int world, int addends);

}  // namespace zeroth::simulate
