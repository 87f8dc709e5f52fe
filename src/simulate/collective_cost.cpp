#include "simulate/collective_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace zeroth::simulate {
namespace {

using comm::Operation;

struct Links {
  int world, nodes, ranks_per_node;
  double bytes_per_s;  ///< Of the slowest link that a ring over all ranks crosses.
};

Links links_of(int world, Machine const& machine) noexcept {
  int const nodes = (world + machine.ranks_per_node - 1) / machine.ranks_per_node;
  double const slowest =
      nodes > 1 ? std::min(machine.node_bytes_per_s, machine.network_bytes_per_s) : machine.node_bytes_per_s;
  return {world, nodes, std::min(world, machine.ranks_per_node), slowest};
}

double transfer_us(double bytes, Links const& links, Protocol const& protocol) noexcept {
  return 1e6 * bytes / (links.bytes_per_s * protocol.bandwidth_fraction);
}

/// `rounds` times around the ring but one step; `bytes` pass every link.
double ring_us(int rounds, double bytes, Links const& links, Protocol const& protocol) noexcept {
  int const network_steps = rounds * (links.nodes - 1);
  int const steps = rounds * (links.world - 1) - network_steps;
  return protocol.start_us + steps * protocol.step_us + network_steps * protocol.network_step_us +
         transfer_us(bytes, links, protocol);
}

/// Up and down: a chain within a node, a binary tree between nodes.
double tree_us(double bytes, Links const& links, Protocol const& protocol) noexcept {
  double const depth = std::ceil(std::log2(links.nodes));
  return protocol.start_us + 2 * ((links.ranks_per_node - 1) * protocol.step_us + depth * protocol.network_step_us) +
         transfer_us(2 * bytes, links, protocol);
}

template <class Time>
double fastest(std::vector<Protocol> const& protocols, Time const& time) {
  double best = std::numeric_limits<double>::infinity();
  for (auto const& protocol : protocols) {
    best = std::min(best, time(protocol));
  }
  return best;
}

}  // namespace

CollectiveCost cost_of(comm::Collective const& collective, int world, Machine const& machine) {
  if (world == 1) {
    return {machine.kernel_us, 0, false};
  }
  auto const links = links_of(world, machine);
  auto const block = static_cast<double>(collective.count * bytes_of(collective.dtype));
  auto const ring = [&](int rounds, double bytes) {
    return fastest(machine.ring, [&](Protocol const& each) { return ring_us(rounds, bytes, links, each); });
  };
  switch (collective.operation) {
    case Operation::all_gather: {
      double const sent = (world - 1) * block;
      if (machine.copy_engine_gathers && links.nodes == 1) {
        return {machine.kernel_us + 1e6 * sent / links.bytes_per_s, static_cast<std::int64_t>(sent), false};
      }
      return {ring(1, sent), static_cast<std::int64_t>(sent)};
    }
    case Operation::reduce_scatter:
    case Operation::all_to_all: {
      double const sent = (world - 1) * block;
      return {ring(1, sent), static_cast<std::int64_t>(sent)};
    }
    case Operation::all_reduce: {
      double const sent = 2 * block * (world - 1) / world;
      double const tree = fastest(machine.tree, [&](Protocol const& each) { return tree_us(block, links, each); });
      return {std::min(ring(2, sent), tree), static_cast<std::int64_t>(sent)};
    }
    case Operation::barrier: return {ring(1, 0), 0};
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::send:
    case Operation::receive: return {ring(1, block), static_cast<std::int64_t>(block)};
    case Operation::gather:
    case Operation::scatter: return {ring(1, (world - 1) * block), static_cast<std::int64_t>(block)};
  }
  return {};
}

}  // namespace zeroth::simulate
