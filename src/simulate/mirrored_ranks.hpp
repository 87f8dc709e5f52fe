// SPDX-License-Identifier: Apache-2.0
/// Collectives of one rank among ranks that are all taken to bring what it brings.
#pragma once
#include "zeroth/comm/communicator.hpp"

namespace zeroth::simulate {

/// Moves the values of all-gathers, and of all-reduces of fp64: what the engine reads of a step without its math. What
/// other operations write stays as it is. `addends`: the number of ranks that bring something to a sum.
void exchange_with_mirrors(comm::Collective const& collective, int world, int addends);

}  // namespace zeroth::simulate
