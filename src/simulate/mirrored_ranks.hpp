// SPDX-License-Identifier: Apache-2.0
/// Collectives of one rank among ranks that are all taken to bring what it brings.
#pragma once
#include "zeroth/comm/communicator.hpp"

namespace zeroth::simulate {

/// Moves the values of all-gathers, and of all-reduces of fp64: what the engine reads of a step without its math. What
/// other operations write stays as it is.
void exchange_with_mirrors(comm::Collective const& collective, int world);

}  // namespace zeroth::simulate
