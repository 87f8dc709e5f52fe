// SPDX-License-Identifier: Apache-2.0
/// Captures of streams, and launches of graphs.
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

namespace zeroth::testing {
namespace {

/// Pinned memory of the host.
class Pinned {
 public:
  explicit Pinned(std::size_t bytes) {
    void* made = nullptr;
    cudaHostAlloc(&made, bytes, cudaHostAllocDefault);
    data_ = static_cast<std::uint8_t*>(made);
  }
  Pinned(Pinned const&) = delete;
  Pinned& operator=(Pinned const&) = delete;
  ~Pinned() { cudaFreeHost(data_); }
  [[nodiscard]] std::uint8_t& operator[](std::size_t i) { return data_[i]; }
  [[nodiscard]] void* data() { return data_; }

 private:
  std::uint8_t* data_;
};

}  // namespace

TEST_CASE("captured work runs at each launch and not before") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  int count = 0;
  CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(status_of(stream) == cudaStreamCaptureStatusActive);
  CHECK(bench.post(stream, [&] { ++count; }) == cudaSuccess);
  CHECK(bench.post(stream, [&] { count *= 2; }) == cudaSuccess);
  auto* const graph = bench.end(stream);
  REQUIRE(graph != nullptr);
  CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
  CHECK(nodes_of(graph) == 2);
  CHECK(edges_of(graph) == 1);
  CHECK(finish(stream) == cudaSuccess);
  CHECK(count == 0);
  auto* const executable = bench.instantiate(graph);
  REQUIRE(executable != nullptr);
  for (int expected : {2, 6, 14}) {
    CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
    CHECK(finish(stream) == cudaSuccess);
    CHECK(count == expected);
  }
}

TEST_CASE("copies and fills keep the addresses and values of their capture") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  {
    Pinned a{64}, b{64};
    REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
    CHECK(cudaMemsetAsync(a.data(), 3, 64, stream) == cudaSuccess);
    CHECK(cudaMemcpyAsync(b.data(), a.data(), 64, cudaMemcpyDefault, stream) == cudaSuccess);
    CHECK(cudaMemset2DAsync(a.data(), 32, 4, 1, 2, stream) == cudaSuccess);
    auto* const executable = bench.end_and_instantiate(stream);
    REQUIRE(executable != nullptr);
    for (int launch = 0; launch < 2; ++launch) {
      a[0] = a[1] = a[32] = b[0] = b[63] = 9;
      CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
      CHECK(finish(stream) == cudaSuccess);
      CHECK(std::vector<int>{a[0], a[1], a[32], b[0], b[63]} == std::vector<int>{4, 3, 4, 3, 3});
    }
  }
}

TEST_CASE("a graph runs in the order of its stream") {
  begin_on({});
  Bench bench;
  auto* const captured = bench.stream();
  auto* const stream = bench.stream();
  std::vector<int> order;
  REQUIRE(cudaStreamBeginCapture(captured, thread_mode) == cudaSuccess);
  CHECK(bench.post(captured, [&] { order.push_back(1); }) == cudaSuccess);
  auto* const executable = bench.end_and_instantiate(captured);
  REQUIRE(executable != nullptr);
  for (int launch = 0; launch < 3; ++launch) {
    CHECK(bench.post(stream, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
      order.push_back(0);
    }) == cudaSuccess);
    CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
    CHECK(bench.post(stream, [&] { order.push_back(2); }) == cudaSuccess);
  }
  CHECK(finish(stream) == cudaSuccess);
  CHECK(order == std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 2});
}

TEST_CASE("launches of one executable graph run one after another on any streams") {
  begin_on({});
  Bench bench;
  auto* const one = bench.stream();
  auto* const two = bench.stream();
  int running = 0, most = 0, count = 0;
  REQUIRE(cudaStreamBeginCapture(one, thread_mode) == cudaSuccess);
  CHECK(bench.post(one, [&] { most = std::max(most, ++running); }) == cudaSuccess);
  CHECK(bench.post(one, [&] { std::this_thread::sleep_for(std::chrono::milliseconds{2}); }) == cudaSuccess);
  CHECK(bench.post(one, [&] {
    --running;
    ++count;
  }) == cudaSuccess);
  auto* const executable = bench.end_and_instantiate(one);
  REQUIRE(executable != nullptr);
  for (int launch = 0; launch < 4; ++launch) {
    CHECK(cudaGraphLaunch(executable, one) == cudaSuccess);
    CHECK(cudaGraphLaunch(executable, two) == cudaSuccess);
  }
  CHECK(finish(one) == cudaSuccess);
  CHECK(finish(two) == cudaSuccess);
  CHECK(most == 1);
  CHECK(count == 8);
}

TEST_CASE("streams join a capture by events, and their records and waits become edges") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const side = bench.stream();
  int a = 0, b = 0, c = 0, d = 0;
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(bench.post(stream, [&] { a = d + 1; }) == cudaSuccess);
  CHECK(bench.order(stream, side) == cudaSuccess);
  CHECK(status_of(side) == cudaStreamCaptureStatusActive);
  CHECK(bench.post(side, [&] { b = 2 * a; }) == cudaSuccess);
  CHECK(bench.post(stream, [&] { c = 3 * a; }) == cudaSuccess);
  CHECK(bench.order(side, stream) == cudaSuccess);
  CHECK(bench.post(stream, [&] { d = b + c; }) == cudaSuccess);
  auto* const graph = bench.end(stream);
  REQUIRE(graph != nullptr);
  CHECK(status_of(side) == cudaStreamCaptureStatusNone);
  CHECK(nodes_of(graph) == 4);
  CHECK(edges_of(graph) == 4);
  auto* const executable = bench.instantiate(graph);
  REQUIRE(executable != nullptr);
  std::int64_t expected = 0;
  for (int launch = 0; launch < 6; ++launch) {
    expected = 5 * (expected + 1);
    CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
    CHECK(finish(stream) == cudaSuccess);
    CHECK(d == expected);
  }
}

TEST_CASE("a capture without work is an empty graph") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const side = bench.stream();
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(bench.order(stream, side) == cudaSuccess);
  CHECK(bench.order(side, stream) == cudaSuccess);
  auto* const graph = bench.end(stream);
  REQUIRE(graph != nullptr);
  CHECK(nodes_of(graph) == 0);
  auto* const executable = bench.instantiate(graph);
  REQUIRE(executable != nullptr);
  CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
  CHECK(finish(stream) == cudaSuccess);
}

TEST_CASE("external events are recorded and waited for at each launch") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const other = bench.stream();
  auto* const before = bench.event();
  auto* const between = bench.event();
  int input = 0, seen = 0, after = 0;
  std::atomic<bool> open{false};
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(stream, before, cudaEventWaitExternal) == cudaSuccess);
  CHECK(bench.post(stream, [&] { seen = input; }) == cudaSuccess);
  CHECK(cudaEventRecordWithFlags(between, stream, cudaEventRecordExternal) == cudaSuccess);
  CHECK(bench.post(stream, [&] { ++after; }) == cudaSuccess);
  auto* const graph = bench.end(stream);
  REQUIRE(graph != nullptr);
  CHECK(nodes_of(graph) == 4);
  CHECK(cudaEventQuery(between) == cudaSuccess);  // not recorded yet
  auto* const executable = bench.instantiate(graph);
  REQUIRE(executable != nullptr);
  for (int launch = 1; launch <= 3; ++launch) {
    open = false;
    CHECK(bench.post(other, [&, launch] {
      while (!open) {
        std::this_thread::yield();
      }
      input = launch;
    }) == cudaSuccess);
    CHECK(cudaEventRecord(before, other) == cudaSuccess);
    CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
    CHECK(cudaEventQuery(between) == cudaErrorNotReady);
    open = true;
    while (cudaEventQuery(between) == cudaErrorNotReady) {
      std::this_thread::yield();
    }
    CHECK(seen == launch);
    CHECK(finish(stream) == cudaSuccess);
    CHECK(after == launch);
  }
}

TEST_CASE("capture information gives the capture's number and the nodes that come before the next one") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const side = bench.stream();
  unsigned long long first = 0, second = 0;
  std::size_t count = 9;
  auto status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t const* nodes = nullptr;
  cudaGraphEdgeData const* edges = nullptr;
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(cudaStreamGetCaptureInfo(stream, &status, &first, &graph, &nodes, &edges, &count) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  CHECK(count == 0);
  CHECK(bench.order(stream, side) == cudaSuccess);
  CHECK(bench.post(side, [] {}) == cudaSuccess);
  CHECK(bench.post(stream, [] {}) == cudaSuccess);
  CHECK(bench.order(side, stream) == cudaSuccess);
  CHECK(cudaStreamGetCaptureInfo(stream, &status, &second, &graph, &nodes, &edges, &count) == cudaSuccess);
  CHECK(second == first);
  CHECK(count == 2);
  CHECK(bench.end(stream) == graph);
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(cudaStreamGetCaptureInfo(stream, &status, &second, nullptr, nullptr, nullptr, nullptr) == cudaSuccess);
  CHECK(second != first);
  CHECK(bench.end(stream) != nullptr);
}

TEST_CASE("an executable graph outlives its graph, and work outlives the executable graph") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  std::atomic<bool> open{false};
  std::atomic<int> count{0};
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(bench.post(stream, [&] {
    while (!open) {
      std::this_thread::yield();
    }
  }) == cudaSuccess);
  CHECK(bench.post(stream, [&] { ++count; }) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
  CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  open = true;
  CHECK(finish(stream) == cudaSuccess);
  CHECK(count == 2);
}

TEST_CASE("a graph launched on a captured stream becomes a part of the other graph") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  std::vector<int> order;
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(bench.post(stream, [&] { order.push_back(1); }) == cudaSuccess);
  auto* const inner = bench.end_and_instantiate(stream);
  REQUIRE(inner != nullptr);
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(bench.post(stream, [&] { order.push_back(0); }) == cudaSuccess);
  CHECK(cudaGraphLaunch(inner, stream) == cudaSuccess);
  CHECK(bench.post(stream, [&] { order.push_back(2); }) == cudaSuccess);
  auto* const outer = bench.end_and_instantiate(stream);
  REQUIRE(outer != nullptr);
  CHECK(order.empty());
  CHECK(cudaGraphLaunch(outer, stream) == cudaSuccess);
  CHECK(cudaGraphLaunch(outer, stream) == cudaSuccess);
  CHECK(finish(stream) == cudaSuccess);
  CHECK(order == std::vector<int>{0, 1, 2, 0, 1, 2});
}

#ifndef ZEROTH_ON_GPU
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
  fake_cuda::drop_edge(1);  // from 0 to 2
  auto* const executable = bench.instantiate(graph);
  REQUIRE(executable != nullptr);
  CHECK(fake_cuda::graphs_made().at(0).redundant);
  CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
  CHECK(finish(stream) == cudaSuccess);
  CHECK(order == std::vector<int>{0, 1, 2});
  CHECK(bench.instantiate(graph) != nullptr);  // only the next graph
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
#endif

}  // namespace zeroth::testing
