// SPDX-License-Identifier: Apache-2.0
#include "simulate/collective_cost.hpp"

#include <vector>

#include "support/catch.hpp"

namespace zeroth::simulate {
namespace {

using comm::Collective;
using comm::Operation;

Machine machine() {
  Machine machine;
  machine.ranks_per_node = 8;
  machine.node_bytes_per_s = 100e9;
  machine.network_bytes_per_s = 50e9;
  machine.ring = {{10, 2, 20, 1.0}, {5, 1, 3, 0.25}};
  machine.tree = {{4, 1, 6, 0.5}};
  machine.kernel_us = 3;
  machine.memory_bytes_per_s = 4e12;
  return machine;
}

/// The reach of `count` ranks `first`, `first + stride`, ... in a job of `world` ranks.
Reach of(int first, int stride, int count, int world) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) {
    ranks.push_back(first + i * stride);
  }
  return reach_of(ranks, world, machine());
}
Reach all(int world) { return of(0, 1, world, world); }

Collective all_gather(std::int64_t count) { return {Operation::all_gather, nullptr, nullptr, count, Dtype::fp32, 0}; }

}  // namespace

TEST_CASE("A ring within a node costs its start, world - 1 steps and world - 1 blocks") {
  auto const cost = cost_of(all_gather(1'000'000), all(8), machine());  // blocks of 4 MB
  CHECK(cost.us() == Approx(10 + 7 * 2 + 7 * 4e6 / 100e9 * 1e6));
  CHECK(cost.bytes_sent == 7 * 4'000'000);
  CHECK(cost.takes_compute);
}

TEST_CASE("Between nodes a ring has a network step per further node and the slowest link's bandwidth") {
  auto const cost = cost_of(all_gather(1'000'000), all(32), machine());
  CHECK(cost.us() == Approx(10 + (31 - 3) * 2 + 3 * 20 + 31 * 4e6 / 50e9 * 1e6));
}

TEST_CASE("The fastest protocol is used: low latency for few bytes") {
  CHECK(cost_of(all_gather(1), all(8), machine()).us() == Approx(5 + 7 * 1 + 7 * 4 / (100e9 * 0.25) * 1e6));
}

TEST_CASE("An all-reduce is two rings, or a tree if that is faster") {
  Collective const large{Operation::all_reduce, nullptr, nullptr, 100'000'000, Dtype::fp32, 0};
  auto const sent = 2 * 4e8 * 7 / 8;
  CHECK(cost_of(large, all(8), machine()).us() == Approx(10 + 14 * 2 + sent / 100e9 * 1e6));
  CHECK(cost_of(large, all(8), machine()).bytes_sent == static_cast<std::int64_t>(sent));

  Collective const scalars{Operation::all_reduce, nullptr, nullptr, 5, Dtype::fp64, 0};
  // 64 nodes: up and down a chain of 7 steps and a tree of depth 6.
  CHECK(cost_of(scalars, all(512), machine()).us() == Approx(4 + 2 * (7 * 1 + 6 * 6) + 2 * 40 / (50e9 * 0.5) * 1e6));
  auto no_trees = machine();
  no_trees.tree.clear();
  CHECK(cost_of(scalars, all(512), no_trees).us() > 5 + 2 * 511);
}

TEST_CASE("Copy engines gather within a node in one step, and do not slow compute down") {
  auto with_copy_engines = machine();
  with_copy_engines.copy_engine_gathers = true;
  auto const cost = cost_of(all_gather(1'000'000), all(8), with_copy_engines);
  CHECK(cost.us() == Approx(3 + 7 * 4e6 / 100e9 * 1e6));
  CHECK_FALSE(cost.takes_compute);
  CHECK(cost_of(all_gather(1'000'000), all(16), with_copy_engines).takes_compute);
  Collective const reduce_scatter{Operation::reduce_scatter, nullptr, nullptr, 1000, Dtype::fp32, 0};
  CHECK(cost_of(reduce_scatter, all(8), with_copy_engines).takes_compute);
}

TEST_CASE("A communicator's cost follows from the nodes and adapters of its ranks") {
  // Eight ranks of a node use no network. One rank of each of four nodes uses only network steps, with an eighth of the
  // adapters.
  CHECK(cost_of(all_gather(1'000'000), of(8, 1, 8, 32), machine()).us() ==
        cost_of(all_gather(1'000'000), all(8), machine()).us());
  CHECK(cost_of(all_gather(1'000'000), of(3, 8, 4, 32), machine()).us() ==
        Approx(10 + 3 * 20 + 3 * 4e6 / (50e9 / 8) * 1e6));
  // Two of each: as many network steps, and others; twice the adapters.
  CHECK(cost_of(all_gather(1'000'000), of(0, 4, 8, 32), machine()).us() ==
        Approx(10 + 4 * 2 + 3 * 20 + 7 * 4e6 / (50e9 / 4) * 1e6));
  // A group of twelve on a node and a half; another group has the other half.
  auto const across = of(0, 1, 12, 24);
  CHECK(across.nodes == 2);
  CHECK(across.ranks_per_node == 8);
  CHECK(across.network_share == 0.5);
  // The last node need not be full: the ranks on it share all of its network.
  CHECK(all(12).network_share == 1);
  CHECK(of(1, 2, 6, 12).network_share == 0.5);
}

TEST_CASE("One rank sends nothing") {
  auto const cost = cost_of(all_gather(1'000'000), all(1), machine());
  CHECK(cost.bytes_sent == 0);
  CHECK(cost.us() == 3);
  double in[1] = {}, out[1] = {};
  Collective const copied{Operation::all_gather, in, out, 1'000'000'000, Dtype::fp32, 0};
  CHECK(cost_of(copied, all(1), machine()).us() == Approx(2 * 4e9 / 4e12 * 1e6));
}

}  // namespace zeroth::simulate
