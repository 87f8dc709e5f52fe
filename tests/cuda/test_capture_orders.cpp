// SPDX-License-Identifier: Apache-2.0
/// The order of a graph's nodes on the tests' CUDA runtime, also with an edge removed, and faults of the machine.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cuda/captured.hpp"
#include "support/catch.hpp"
#include "support/fake_cuda/fake_cuda.hpp"

namespace zeroth::testing {
namespace {

using fake_cuda::enqueue;
constexpr int launches = 20;

/// The fork and join of four pieces of work; the results of `launches` launches, where edge `dropped` is missing.
std::vector<int> results_without(int dropped, fake_cuda::Machine const& machine = {}) {
  fake_cuda::reset(machine);
  std::vector<int> results;
  Bench bench;
  auto* const stream = bench.stream();
  auto* const side = bench.stream();
  std::atomic<int> a{0}, b{0}, c{0}, d{0};
  cudaStreamBeginCapture(stream, global_mode);
  enqueue(stream, [&] { ++a; });
  bench.order(stream, side);
  enqueue(side, [&] { b = 2 * a; });
  enqueue(stream, [&] { c = 3 * a; });
  bench.order(side, stream);
  enqueue(stream, [&] { d = b + c; });
  if (dropped >= 0) {
    fake_cuda::drop_edge(static_cast<std::size_t>(dropped));
  }
  auto* const executable = bench.end_and_instantiate(stream);
  for (int launch = 0; executable != nullptr && launch < launches; ++launch) {
    cudaGraphLaunch(executable, stream);
    finish(stream);
    results.push_back(d);
  }
  return results;
}

std::vector<int> right_results() {
  std::vector<int> results;
  for (int launch = 1; launch <= launches; ++launch) {
    results.push_back(5 * launch);
  }
  return results;
}

}  // namespace

TEST_CASE("a graph gives the same results in every order, and other ones without any of its edges") {
  for (unsigned const delays : {0U, 7U}) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
      CAPTURE(delays, seed);
      CHECK(results_without(-1, {.delays = delays, .graph_seed = seed}) == right_results());
    }
  }
  auto const made = fake_cuda::graphs_made();
  REQUIRE(made.size() == 1);
  CHECK(made[0].nodes == 4);
  REQUIRE(made[0].edges == 4);
  CHECK_FALSE(made[0].dropped);
  for (int edge = 0; edge < 4; ++edge) {
    CAPTURE(edge);
    auto const results = results_without(edge);
    CHECK(results.size() == launches);
    CHECK(results != right_results());
    CHECK(fake_cuda::graphs_made().at(0).dropped);
    CHECK_FALSE(fake_cuda::graphs_made().at(0).redundant);
  }
  CHECK(results_without(4).empty());  // no such edge
}

TEST_CASE("an edge that others imply can be dropped without effect") {
  fake_cuda::reset();
  Bench bench;
  auto* const stream = bench.stream();
  auto* const side = bench.stream();
  std::vector<int> order;
  REQUIRE(cudaStreamBeginCapture(stream, global_mode) == cudaSuccess);
  CHECK(enqueue(stream, [&] { order.push_back(0); }) == cudaSuccess);
  auto* const first = bench.event();
  CHECK(cudaEventRecord(first, stream) == cudaSuccess);
  CHECK(bench.order(stream, side) == cudaSuccess);
  CHECK(enqueue(side, [&] { order.push_back(1); }) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(side, first, 0) == cudaSuccess);
  CHECK(enqueue(side, [&] { order.push_back(2); }) == cudaSuccess);
  CHECK(bench.order(side, stream) == cudaSuccess);
  auto* const graph = bench.end(stream);
  REQUIRE(graph != nullptr);
  CHECK(edges_of(graph) == 3);
  fake_cuda::drop_edge(1);  // the edge from node 0 to node 2
  auto* const executable = bench.instantiate(graph);
  REQUIRE(executable != nullptr);
  CHECK(fake_cuda::graphs_made().at(0).redundant);
  CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
  CHECK(finish(stream) == cudaSuccess);
  CHECK(order == std::vector<int>{0, 1, 2});
  CHECK(bench.instantiate(graph) != nullptr);  // affects only the next graph
  CHECK_FALSE(fake_cuda::graphs_made().at(1).dropped);
}

TEST_CASE("nodes that are ready run in random order, on as many threads as there were streams") {
  std::set<std::string> orders;
  bool overlapped = false;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    fake_cuda::reset({.graph_seed = seed});
    CHECK(fake_cuda::graph_seed() == seed);
    Bench bench;
    auto* const stream = bench.stream();
    std::vector<cudaStream_t> const sides{bench.stream(), bench.stream()};
    std::mutex mutex;
    std::string order;
    int running = 0, most = 0;
    REQUIRE(cudaStreamBeginCapture(stream, global_mode) == cudaSuccess);
    for (auto* const side : sides) {
      REQUIRE(bench.order(stream, side) == cudaSuccess);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      REQUIRE(enqueue(sides[i], [&, i] {
                std::unique_lock lock{mutex};
                order += std::to_string(i);
                most = std::max(most, ++running);
                lock.unlock();
                std::this_thread::sleep_for(std::chrono::milliseconds{1});
                lock.lock();
                --running;
              }) == cudaSuccess);
    }
    for (auto* const side : sides) {
      REQUIRE(bench.order(side, stream) == cudaSuccess);
    }
    auto* const executable = bench.end_and_instantiate(stream);
    REQUIRE(executable != nullptr);
    CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
    CHECK(finish(stream) == cudaSuccess);
    overlapped |= most == 2;
    orders.insert(order);
  }
  CHECK(orders == std::set<std::string>{"01", "10"});
  CHECK(overlapped);
}

TEST_CASE("external events with times take the time of each launch") {
  fake_cuda::reset({.timed_event_us = 3});
  Bench bench;
  auto* const stream = bench.stream();
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&begin, cudaEventDefault) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&end, cudaEventDefault) == cudaSuccess);
  std::int64_t duration = 0;
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(cudaEventRecordWithFlags(begin, stream, cudaEventRecordExternal) == cudaSuccess);
  CHECK(enqueue(stream, [&] { fake_cuda::pass_time(duration); }) == cudaSuccess);
  CHECK(cudaEventRecordWithFlags(end, stream, cudaEventRecordExternal) == cudaSuccess);
  auto* const executable = bench.end_and_instantiate(stream);
  REQUIRE(executable != nullptr);
  for (int const milliseconds : {5, 2}) {
    duration = 1000 * milliseconds - 3;
    CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
    CHECK(finish(stream) == cudaSuccess);
    float measured = 0;
    CHECK(cudaEventElapsedTime(&measured, begin, end) == cudaSuccess);
    CHECK(measured == Approx(milliseconds));
  }
  CHECK(cudaEventDestroy(begin) == cudaSuccess);
  CHECK(cudaEventDestroy(end) == cudaSuccess);
}

TEST_CASE("work of several GPUs is captured together", "[two GPUs]") {
  begin_on({.count = 2});
  Bench bench;
  auto* const stream = bench.stream();
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  auto* const there = bench.stream();
  auto* const back = bench.event();
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  std::vector<int> order;
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(enqueue(stream, [&] { order.push_back(0); }) == cudaSuccess);
  CHECK(bench.order(stream, there) == cudaSuccess);
  CHECK(enqueue(there, [&] { order.push_back(1); }) == cudaSuccess);
  CHECK(cudaEventRecord(back, there) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(stream, back, 0) == cudaSuccess);
  CHECK(enqueue(stream, [&] { order.push_back(2); }) == cudaSuccess);
  auto* const executable = bench.end_and_instantiate(stream);
  REQUIRE(executable != nullptr);
  CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
  CHECK(finish(stream) == cudaSuccess);
  CHECK(order == std::vector<int>{0, 1, 2});
}

TEST_CASE("handles that were destroyed are rejected") {
  fake_cuda::reset();
  Bench bench;
  auto* const stream = bench.stream();
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  std::size_t count = 0;
  CHECK(name_of(cudaGraphLaunch(executable, stream)) == "cudaErrorInvalidValue");
  CHECK(name_of(cudaGraphExecDestroy(executable)) == "cudaErrorInvalidValue");
  CHECK(name_of(cudaGraphInstantiate(&executable, graph, 0)) == "cudaErrorInvalidValue");
  CHECK(name_of(cudaGraphGetNodes(graph, nullptr, &count)) == "cudaErrorInvalidValue");
  CHECK(name_of(cudaGraphDestroy(graph)) == "cudaErrorInvalidValue");
}

TEST_CASE("faults of the machine reach the nodes of graphs") {
  fake_cuda::reset();
  {
    Bench bench;
    auto* const stream = bench.stream();
    int count = 0;
    REQUIRE(cudaStreamBeginCapture(stream, global_mode) == cudaSuccess);
    for (int i = 0; i < 3; ++i) {
      CHECK(enqueue(stream, [&] { ++count; }) == cudaSuccess);
    }
    auto* const executable = bench.end_and_instantiate(stream);
    REQUIRE(executable != nullptr);
    CHECK(fake_cuda::calls("launch") == 3);
    fake_cuda::refuse("cudaGraphLaunch", cudaErrorMemoryAllocation, 1);
    CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
    CHECK(name_of(cudaGraphLaunch(executable, stream)) == "cudaErrorMemoryAllocation");
    CHECK(finish(stream) == cudaSuccess);
    CHECK(count == 3);
    fake_cuda::fail_work(cudaErrorIllegalAddress, 1);
    CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
    CHECK(name_of(finish(stream)) == "cudaErrorIllegalAddress");
    CHECK(count == 4);
    CHECK(fake_cuda::calls("launch") == 3);
    CHECK(fake_cuda::calls("cudaGraphLaunch") == 3);
    CHECK(fake_cuda::leftovers() == "1 streams, 1 graphs, 1 executable graphs");
  }
  fake_cuda::reset();
}

}  // namespace zeroth::testing
