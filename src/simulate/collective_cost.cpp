// SPDX-License-Identifier: Apache-2.0
#include "simulate/collective_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace zeroth::simulate {
namespace {

using comm::Operation;

struct Topology {
  int world, nodes, ranks_per_node;
  double bytes_per_s;  ///< Rate of the slowest link that a ring over all ranks crosses.
};

Topology topology_of(Reach const& reach, Machine const& machine) noexcept {
  double const network = reach.network_share * machine.network_bytes_per_s;
  double const slowest = reach.nodes > 1 ? std::min(machine.node_bytes_per_s, network) : machine.node_bytes_per_s;
  return {reach.ranks, reach.nodes, reach.ranks_per_node, slowest};
}

double transfer_us(double bytes, Topology const& topology, Protocol const& protocol) noexcept {
  return 1e6 * bytes / (topology.bytes_per_s * protocol.bandwidth_fraction);
}

/// `rounds` rounds of the ring except one step; `bytes` pass every link.
CollectiveCost ring(int rounds, double bytes, Topology const& topology, Protocol const& protocol) noexcept {
  int const network_steps = rounds * (topology.nodes - 1);
  int const steps = rounds * (topology.world - 1) - network_steps;
  return {protocol.start_us + steps * protocol.step_us + network_steps * protocol.network_step_us,
          transfer_us(bytes, topology, protocol)};
}

/// Up and down: a chain within a node, a binary tree between nodes.
CollectiveCost tree(double bytes, Topology const& topology, Protocol const& protocol) noexcept {
  double const depth = std::ceil(std::log2(topology.nodes));
  return {protocol.start_us + 2 * ((topology.ranks_per_node - 1) * protocol.step_us + depth * protocol.network_step_us),
          transfer_us(2 * bytes, topology, protocol)};
}

CollectiveCost faster(CollectiveCost const& one, CollectiveCost const& other) noexcept {
  return other.us() < one.us() ? other : one;
}

/// Slower than any real cost.
constexpr CollectiveCost never{.latency_us = std::numeric_limits<double>::infinity()};

/// Nothing moves if in place.
CollectiveCost alone(comm::Collective const& collective, double bytes, Machine const& machine) noexcept {
  double const copied = collective.input == collective.output ? 0 : 2 * bytes;  // read and written
  return {std::max(machine.kernel_us, 1e6 * copied / machine.memory_bytes_per_s), 0, 0, false};
}

}  // namespace

Reach reach_of(std::span<int const> seats, int world, Machine const& machine) {
  std::map<int, int> on_node;
  for (auto const seat : seats) {
    ++on_node[seat / machine.ranks_per_node];
  }
  Reach reach{.ranks = static_cast<int>(seats.size()), .nodes = static_cast<int>(on_node.size())};
  for (auto const& [node, ranks] : on_node) {
    int const all = std::min(machine.ranks_per_node, world - node * machine.ranks_per_node);
    reach.ranks_per_node = std::max(reach.ranks_per_node, ranks);
    reach.network_share = std::min(reach.network_share, static_cast<double>(ranks) / all);
  }
  return reach;
}

CollectiveCost cost_of(comm::Collective const& collective, Reach const& reach, Machine const& machine) {
  int const world = reach.ranks;
  auto const block = static_cast<double>(collective.count * bytes_of(collective.dtype));
  if (world == 1) {
    return alone(collective, block, machine);
  }
  auto const topology = topology_of(reach, machine);
  auto const by_rings = [&](int rounds, double sent) {
    auto best = never;
    for (auto const& protocol : machine.ring) {
      best = faster(best, ring(rounds, sent, topology, protocol));
    }
    best.bytes_sent = static_cast<std::int64_t>(sent);
    return best;
  };
  switch (collective.operation) {
    case Operation::all_gather: {
      double const sent = (world - 1) * block;
      if (machine.copy_engine_gathers && topology.nodes == 1) {
        return {machine.kernel_us, 1e6 * sent / topology.bytes_per_s, static_cast<std::int64_t>(sent), false};
      }
      return by_rings(1, sent);
    }
    case Operation::reduce_scatter:
    case Operation::all_to_all: return by_rings(1, (world - 1) * block);
    case Operation::all_reduce: {
      auto best = by_rings(2, 2 * block * (world - 1) / world);
      auto const sent = best.bytes_sent;
      for (auto const& protocol : machine.tree) {
        best = faster(best, tree(block, topology, protocol));
      }
      best.bytes_sent = sent;
      return best;
    }
    case Operation::barrier: return by_rings(1, 0);
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::send:
    case Operation::receive: return by_rings(1, block);
    case Operation::gather:
    case Operation::scatter: {
      auto cost = by_rings(1, (world - 1) * block);
      cost.bytes_sent = static_cast<std::int64_t>(block);
      return cost;
    }
  }
  return {};
}

}  // namespace zeroth::simulate
