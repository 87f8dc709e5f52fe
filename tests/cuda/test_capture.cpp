// SPDX-License-Identifier: Apache-2.0
/// Captures of streams, and launches of graphs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
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
  CHECK(cudaEventQuery(between) == cudaSuccess);  // the event is not recorded yet
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

}  // namespace zeroth::testing
