// SPDX-License-Identifier: Apache-2.0
/// Meshes that are simulated, with tensor ranks and with their axes in any order, against arithmetic.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "simulate/seats.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/simulate/simulate.hpp"

namespace zeroth::simulate {
namespace {

constexpr auto tensor = MeshAxis::tensor, data = MeshAxis::data, pipeline = MeshAxis::pipeline;
constexpr Nearness orders[] = {{tensor, data, pipeline}, {tensor, pipeline, data}, {data, tensor, pipeline},
                               {data, pipeline, tensor}, {pipeline, tensor, data}, {pipeline, data, tensor}};

/// One thousand operations, and one byte between nodes, per microsecond. All else is free.
Machine nodes_of(int ranks_per_node) {
  Machine machine;
  machine.name = "test";
  machine.peak_flops_per_s = 1e9;
  machine.memory_bytes_per_s = machine.node_bytes_per_s = std::numeric_limits<double>::infinity();
  machine.network_bytes_per_s = 1e6;
  machine.ranks_per_node = ranks_per_node;
  machine.ring = {{0, 0, 0, 1}};
  return machine;
}

struct LineShape {
  int units = 1;
  int tensor = 2;
  std::int64_t sums = 0, channels = 0, parameters = 8;
};

/// Units of one millisecond forward and two backward, one of which may overlap sums.
struct DividedLine {
  Model model;
  std::vector<UnitWork> work;

  explicit DividedLine(LineShape const& shape) : model{0, {0, shape.tensor}} {
    for (int i = 0; i < shape.units; ++i) {
      auto const name = fmt::format("unit{}", i);
      auto const unit = model.unit(name, {.input_per_sample = shape.channels, .tensor_sums_per_sample = shape.sums});
      static_cast<void>(model.param(unit, name, {shape.parameters}, Constant{0}));
      work.push_back({.forward_flops = 1e6, .backward_flops = 2e6, .overlapped_flops = 1e6});
    }
  }
};

Config mesh_config(int tensor_ranks, int stages, bool sequence = false) {
  return Config::from_json(fmt::format(R"({{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": {},
                       "zeroth": {{"mesh": {{"tensor": {}, "pipeline": {}}}, "sequence_parallel": {}}}}})",
                                       2 * stages, tensor_ranks, stages, sequence));
}

Simulation simulated(LineShape const& shape, int world, Machine const& on, Options const& options = {}, int stages = 1,
                     bool sequence = false) {
  DividedLine const line{shape};
  return run(line.model, mesh_config(shape.tensor, stages, sequence), world, line.work, on, options);
}

constexpr double a_step = 2;  // micro-steps, of mesh_config() with one stage

}  // namespace

TEST_CASE("Seats put the ranks of an axis next to each other, and leave none empty") {
  for (auto const& nearness : orders) {
    Seats const seats{{2, 3, 4}, nearness};
    std::vector<int> taken;
    for (int rank = 0; rank < 24; ++rank) {
      taken.push_back(seats.of(rank));
    }
    auto const step_of = [&](MeshAxis axis) {
      return seats.of(axis == tensor ? 1 : axis == data ? 2 : 6);  // the next rank along it; rank 0 has seat 0
    };
    CHECK(step_of(nearness[0]) == 1);
    CHECK(step_of(nearness[1]) < step_of(nearness[2]));
    std::ranges::sort(taken);
    for (int seat = 0; seat < 24; ++seat) {
      CHECK(taken[static_cast<std::size_t>(seat)] == seat);
    }
  }
  Seats const own{{2, 3, 4}, orders[0]};
  for (int rank = 0; rank < 24; ++rank) {
    CHECK(own.of(rank) == rank);
    CHECK(Seats{}.of(rank) == rank);
  }
  CHECK_THROWS_WITH((Seats{{2, 3, 4}, {tensor, data, tensor}}),
                    Catch::Contains("nearness tensor, data, tensor: each axis must be there once"));
}

TEST_CASE("On one node a step takes the same time in all orders of axes") {
  auto on = nodes_of(8);
  on.node_bytes_per_s = 1e6;
  auto const first = simulated({.units = 4, .sums = 100, .channels = 100}, 8, on, {}, 2);
  CHECK(first.tensor_ms > 0);
  for (auto const& nearness : orders) {
    auto const other = simulated({.units = 4, .sums = 100, .channels = 100}, 8, on, {.nearness = nearness}, 2);
    CHECK(other.step_ms == first.step_ms);
    CHECK(other.tensor_ms == first.tensor_ms);
    CHECK(other.bubble_ms == first.bubble_ms);
    CHECK(other.bytes_sent == first.bytes_sent);
  }
}

TEST_CASE("Sums of tensor ranks cost their bytes across nodes, and nothing within one") {
  constexpr std::int64_t elements = 1000;
  auto const inside = simulated({.sums = elements}, 4, nodes_of(2));
  CHECK(inside.tensor_ms == 0);
  // Each node has one of the two ranks that sum, which has half of the node's network. A ring sends all fp32 elements,
  // in forward and in backward.
  double const sum_ms = 1e-3 * 4 * elements / 0.5;
  auto const outside = simulated({.sums = elements}, 4, nodes_of(2), {.nearness = {data, tensor, pipeline}});
  CHECK(outside.tensor_ms == Approx(a_step * 2 * sum_ms));
  CHECK(outside.exposed_comm_ms < inside.exposed_comm_ms);  // the data ranks' collectives stay on a node now
  CHECK(outside.step_ms == Approx(a_step * (3 + 2 * sum_ms) + outside.exposed_comm_ms));
  CHECK(inside.step_ms == Approx(a_step * 3 + inside.exposed_comm_ms));
  CHECK(inside.step_ms < outside.step_ms);
}

TEST_CASE("With a slow link between two nodes the axis that sends most should be within a node") {
  struct Case {
    LineShape shape;
    MeshAxis most;
  };
  for (auto const& [shape, most] : {Case{{.units = 2, .sums = 2000, .channels = 100, .parameters = 1000}, tensor},
                                    Case{{.units = 2, .sums = 100, .channels = 100, .parameters = 40'000}, data},
                                    Case{{.units = 2, .sums = 100, .channels = 2000, .parameters = 1000}, pipeline}}) {
    INFO(name_of(most));
    auto inside_ms = 0.0, outside_ms = std::numeric_limits<double>::infinity();
    for (auto const& nearness : orders) {  // four ranks a node: the last axis alone crosses nodes
      auto const step_ms = simulated(shape, 8, nodes_of(4), {.nearness = nearness}, 2).step_ms;
      auto& side = nearness[2] == most ? outside_ms : inside_ms;
      side = nearness[2] == most ? std::min(side, step_ms) : std::max(side, step_ms);
    }
    CHECK(inside_ms < outside_ms);
  }
}

TEST_CASE("Code that overlaps sums hides them behind gradients of matrices") {
  auto const tensor_ms = [](double sum_ms, bool overlap, bool sequence = false) {
    auto on = nodes_of(2);
    on.node_bytes_per_s = 1e6;
    on.rates.tensor_overlap = overlap;
    auto const elements = static_cast<std::int64_t>(1e3 * sum_ms / 4);  // fp32; a ring of two sends all elements
    auto const result = simulated({.sums = elements}, 2, on, {}, 1, sequence);
    CHECK(result.step_ms == Approx(a_step * 3 + result.tensor_ms + result.exposed_comm_ms));
    return result.tensor_ms / a_step;
  };
  for (bool const sequence : {false, true}) {
    CHECK(tensor_ms(0.6, false, sequence) == Approx(2 * 0.6));
    CHECK(tensor_ms(3, false, sequence) == Approx(2 * 3));
  }
  CHECK(tensor_ms(0.6, true) == Approx(0.6));      // forward's
  CHECK(tensor_ms(3, true) == Approx(3 + 3 - 1));  // a millisecond of backward's is hidden
  // Half of backward's is an all-gather, which comes before its products.
  CHECK(tensor_ms(0.6, true, true) == Approx(0.6 + 0.3));
  CHECK(tensor_ms(3, true, true) == Approx(3 + 1.5 + 1.5 - 1));
}

TEST_CASE("Sequence parallelism sends as much as all-reduces do") {
  auto on = nodes_of(4);
  on.node_bytes_per_s = 1e6;
  auto const whole = simulated({.tensor = 4, .sums = 4000}, 4, on);
  auto const by_rows = simulated({.tensor = 4, .sums = 4000}, 4, on, {}, 1, true);
  CHECK(by_rows.bytes_sent == whole.bytes_sent);
  CHECK(by_rows.tensor_ms == Approx(whole.tensor_ms));
}

TEST_CASE("Tensor ranks run at the speed of the slowest, whichever it is") {
  auto const slowed = [](std::map<int, double> const& slowdown) {
    return simulated({.sums = 100}, 4, nodes_of(4), {.all_ranks = true, .slowdown = slowdown});
  };
  auto const even_ms = slowed({}).step_ms;
  auto const second = slowed({{3, 2.0}});
  REQUIRE(second.ranks.size() == 2);
  CHECK(second.ranks[0].rank == 0);
  CHECK(second.ranks[0].slowdown == 1);
  CHECK(second.ranks[1].rank == 2);
  CHECK(second.ranks[1].slowdown == 2);
  CHECK(second.step_ms == Approx(2 * even_ms).epsilon(1e-3));
  CHECK(second.step_ms == slowed({{2, 2.0}}).step_ms);
  CHECK(second.step_ms == slowed({{2, 1.5}, {3, 2.0}}).step_ms);
  CHECK(slowed({{2, 0.5}}).step_ms == even_ms);
  CHECK(slowed({{2, 0.5}, {3, 0.5}, {0, 0.5}, {1, 0.5}}).step_ms == Approx(even_ms / 2).epsilon(1e-3));
}

}  // namespace zeroth::simulate
