// SPDX-License-Identifier: Apache-2.0
/// How long a collective takes.
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
  bool on_network = false;      ///< Or within nodes: which links are busy.
  [[nodiscard]] double us() const noexcept { return latency_us + transfer_us; }
};

/// Where the ranks of a communicator are. All communicators of its kind are taken to be busy at the same time: a node's
/// network serves each by the ranks that it has there.
struct Reach {
  int ranks = 1, nodes = 1;
  int ranks_per_node = 1;    ///< At most.
  double network_share = 1;  ///< Smallest share of a node's adapters, over nodes.
};
/// Ranks on `seats` of a job of `world`: see Seats.
[[nodiscard]] Reach reach_of(std::span<int const> seats, int world, Machine const& machine);

/// Rings: (ranks - 1) steps, each of 1/ranks of the data, through all links of a node at once (Patarasu and Yuan 2009);
/// latencies per step within and between nodes, and the choice of the fastest protocol, as NCCL's tuning does it.
/// All-reduces may also be trees, which take few steps, but send everything twice over every link.
/// Copy engines: one step, no start of its own beyond a kernel's. One rank alone copies where input and output differ.
[[nodiscard]] CollectiveCost cost_of(comm::Collective const& collective, Reach const& reach, Machine const& machine);

}  // namespace zeroth::simulate
