// SPDX-License-Identifier: Apache-2.0
/// What all ranks of a mesh have in a checkpoint, where its record is written.
#pragma once
#include <optional>

#include "engine/exchange.hpp"
#include "zeroth/checkpoint/contents.hpp"

namespace zeroth::engine {

/// Collective, waits: on the first of all ranks what those say of their files that share states, in the order of stages
/// and in it of tensor ranks. `own` is said by the first rank of `sharing`. Nothing on the other ranks.
[[nodiscard]] std::optional<checkpoint::Contents> gather_contents(checkpoint::Contents const& own,
                                                                  Exchange const& sharing, Exchange const& whole);

}  // namespace zeroth::engine
