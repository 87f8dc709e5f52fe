// SPDX-License-Identifier: Apache-2.0
/// What all stages of a pipeline have in a checkpoint, where its record is written.
#pragma once
#include <optional>

#include "engine/exchange.hpp"
#include "zeroth/checkpoint/contents.hpp"

namespace zeroth::engine {

/// Collective, waits: on the first of all ranks what every stage says of its files, in the order of stages. `own` is
/// said by the first rank of a stage. Nothing on the other ranks.
[[nodiscard]] std::optional<checkpoint::Contents> gather_contents(checkpoint::Contents const& own,
                                                                  Exchange const& of_stage, Exchange const& whole);

}  // namespace zeroth::engine
