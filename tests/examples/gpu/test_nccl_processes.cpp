// SPDX-License-Identifier: Apache-2.0
/// train_gpt as a launcher starts it, a process for each GPU, over NCCL.
#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

#include "comm/store_ranks.hpp"
#include "examples/program.hpp"
#include "support/catch.hpp"
#include "zeroth/device/cuda.hpp"

namespace gpt {
namespace {

/// The variables that torchrun sets for rank `rank` of `world` on one machine.
std::map<std::string, std::string> torchrun(int rank, int world, int port) {
  return {{"RANK", std::to_string(rank)},        {"LOCAL_RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(world)}, {"LOCAL_WORLD_SIZE", std::to_string(world)},
          {"MASTER_ADDR", "127.0.0.1"},          {"MASTER_PORT", std::to_string(port)}};
}

/// Runs train_gpt as a process for each rank, over NCCL.
void run_processes(Place const& place, int ranks, std::string const& options) {
  int const port = zeroth::comm::Store{zeroth::comm::rank_options(0, 1, 0)}.port();  // is free again
  std::deque<Child> children;
  for (int rank = 0; rank < ranks; ++rank) {
    auto command = place.command(options + " --device cuda --comm nccl");
    command.environment = torchrun(rank, ranks, port);
    children.emplace_back(command);
  }
  for (auto& child : children) {
    auto const ending = child.wait();
    INFO(child.output());
    CHECK(ending.status == 0);
  }
}

}  // namespace

TEST_CASE("processes over NCCL train as threads on the CPU do, and tell memory and trace of every rank") {
  int const ranks = std::min(3, zeroth::device::cuda_device_count());
  Place const place;
  std::string const same = small + "--steps 4 --seed 9 ";
  auto const on_cpu = run(place.command(same + "--report on_cpu --ranks " + std::to_string(ranks)));
  REQUIRE(on_cpu.ending.status == 0);
  run_processes(place, ranks, same + "--report report --trace trace");
  auto const report = place.report();
  auto const steps = steps_of(report), expected = steps_of(place.report("on_cpu"));
  REQUIRE(steps.size() == expected.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CHECK(std::abs(steps[i]["loss"].get<double>() / expected[i]["loss"].get<double>() - 1) < 1e-5);
  }
  std::vector<json> memory;
  std::copy_if(report.begin(), report.end(), std::back_inserter(memory),
               [](json const& record) { return record["record"] == "memory"; });
  REQUIRE(memory.size() == static_cast<std::size_t>(ranks));
  for (auto const& record : memory) {
    CHECK(record["measured_peak"] == record["planned"]);
  }
  std::set<int> processes;
  auto const trace = json::parse(read_all(place / "trace"));
  for (auto const& event : trace["traceEvents"]) {
    processes.insert(event["pid"].get<int>());
  }
  CHECK(processes.size() == static_cast<std::size_t>(ranks));
}

TEST_CASE("processes over NCCL train the same bits when they launch a recorded step") {
  int const ranks = std::min(3, zeroth::device::cuda_device_count());
  Place const place;
  std::string const same = small + "--steps 8 --seed 9 ";
  run_processes(place, ranks, same + "--report usual --save-final usual_model");
  run_processes(place, ranks, same + "--report recorded --save-final recorded_model --step-graph");
  auto const usual = steps_of(place.report("usual")), recorded = steps_of(place.report("recorded"));
  REQUIRE(recorded.size() == 8);
  REQUIRE(usual.size() == 8);
  for (std::size_t i = 0; i < usual.size(); ++i) {
    CHECK(recorded[i]["loss"] == usual[i]["loss"]);
    CHECK(recorded[i]["grad_norm"] == usual[i]["grad_norm"]);
  }
  CHECK(read_all(place / "recorded_model/model.safetensors") == read_all(place / "usual_model/model.safetensors"));
}

}  // namespace gpt
