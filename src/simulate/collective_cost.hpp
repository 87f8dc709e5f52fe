// SPDX-License-Identifier: Apache-2.0
/// The simulated duration of a collective.
#pragma once
#include <cstdint>
#include <span>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/simulate/machine.hpp"

namespace zeroth::simulate {

struct CollectiveCost {
  double latency_us = 0;        ///< Start and steps, independent of the bytes.
  double transfer_us = 0;       ///< Time in which the links are busy.
  std::int64_t bytes_sent = 0;  ///< By one rank.
  bool takes_compute = true;    ///< False on copy engines.
  bool on_network = false;      ///< Whether links between nodes are busy; otherwise those within nodes.
  [[nodiscard]] double us() const noexcept { return latency_us + transfer_us; }
};

/// The location of a communicator's ranks. Assumes that all communicators of its kind are busy at the same time: each
/// gets a share of a node's network that is proportional to its ranks there.
struct Reach {
  int ranks = 1, nodes = 1;
  int ranks_per_node = 1;    ///< Maximum over nodes.
  double network_share = 1;  ///< Smallest share of a node's adapters, over nodes.
};
/// The reach of ranks on `seats` in a job of `world` ranks: see Seats.
[[nodiscard]] Reach reach_of(std::span<int const> seats, int world, Machine const& machine);

/// Rings: (ranks - 1) steps, each of 1/ranks of the data, through all links of a node at once (Patarasu and Yuan 2009);
/// latencies per step within and between nodes, and the fastest protocol, are those of NCCL's tuning. All-reduces may
/// also be trees, which take few steps, but send everything twice over every link. Copy engines: one step, and no
/// startup time beyond that of a kernel. A single rank copies if input and output differ.
[[nodiscard]] CollectiveCost cost_of(comm::Collective const& collective, Reach const& reach, Machine const& machine);

}  // namespace zeroth::simulate
