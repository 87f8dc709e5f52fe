// SPDX-License-Identifier: Apache-2.0
/// The reducers of workers and parameter servers: a worker sends its gradients away, a server adds up what comes.
#pragma once
#include <memory>

#include "shard/reducer.hpp"

namespace zeroth::shard {

/// The reducer of this rank, which is a worker or a server.
[[nodiscard]] std::unique_ptr<Reducer> make_reducer_of_servers(Memory& memory);

}  // namespace zeroth::shard
