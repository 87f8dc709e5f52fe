/// How long a collective takes.
#pragma once
#include <cstdint>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/simulate/machine.hpp"

namespace zeroth::simulate {

struct CollectiveCost {
  double us = 0;
  std::int64_t bytes_sent = 0;  ///< By one rank.
  bool takes_compute = true;    ///< False on copy engines.
};

/// Rings: (world - 1) steps, each of 1/world of the data, through all links of a node at once (Patarasu and Yuan 2009);
/// latencies per step within and between nodes, and the choice of the fastest protocol, as NCCL's tuning does it.
/// All-reduces may also be trees, which take few steps, but send everything twice over every link.
/// Copy engines: one step, no start of its own beyond a kernel's.
[[nodiscard]] CollectiveCost cost_of(comm::Collective const& collective, int world, Machine const& machine);

}  // namespace zeroth::simulate
