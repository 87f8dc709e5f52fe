// SPDX-License-Identifier: Apache-2.0
/// Ranks that are threads of one process.
#pragma once
#include <memory>
#include <vector>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// One communicator per rank of a job of `world` threads; rank r's thread takes element r. `recorders` are the ranks'
/// own; if empty, each communicator makes one. Named "world" in messages.
///
/// Stream order: a transaction first waits for the other ranks, so that it reads nothing too early, and ends when all
/// of them have ended theirs. Sends and receives only wait for their partner. Ownership: a communicator must outlive
/// its submitted transactions, or their streams. Ranks that wait for one whose communicator has ended throw PeerError.
/// Cost: each rank does 1/world of the work, and needs no memory besides the copied lists.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_local(
    int world, CommOptions const& options = {}, std::vector<std::shared_ptr<FlightRecorder>> recorders = {});

}  // namespace zeroth::comm
