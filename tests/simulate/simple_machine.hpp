// SPDX-License-Identifier: Apache-2.0
/// A machine whose times can be computed by hand.
#pragma once
#include "zeroth/simulate/machine.hpp"

namespace zeroth::simulate {

/// It computes 1e9 operations per second. Collectives and messages cost only the time of their bytes on a link.
inline Machine simple_machine(int ranks_per_node, double link_bytes_per_s) {
  Machine machine;
  machine.name = "test";
  machine.peak_flops_per_s = 1e9;
  machine.memory_bytes_per_s = 1e15;
  machine.ranks_per_node = ranks_per_node;
  machine.node_bytes_per_s = machine.network_bytes_per_s = link_bytes_per_s;
  machine.ring = {{0, 0, 0, 1}};
  return machine;
}

}  // namespace zeroth::simulate
