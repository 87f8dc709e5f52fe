// SPDX-License-Identifier: Apache-2.0
/// Gathers the checkpoint contents of all ranks of a mesh on the rank that writes the record.
#pragma once
#include <optional>

#include "engine/exchange.hpp"
#include "zeroth/checkpoint/contents.hpp"

namespace zeroth::engine {

/// Gathers on the first of all ranks the contents of every set of ranks that share states, in the order of stages, then
/// of tensor ranks. The first rank of `sharing` sends `own`. Collective; waits. nullopt on the other ranks.
[[nodiscard]] std::optional<checkpoint::Contents> gather_contents(checkpoint::Contents const& own,
                                                                  Exchange const& sharing, Exchange const& whole);

}  // namespace zeroth::engine
