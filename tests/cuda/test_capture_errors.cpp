// SPDX-License-Identifier: Apache-2.0
/// Errors of captures: what invalidates one, and which calls it prohibits.
#include <functional>
#include <string>
#include <vector>

#include "cuda/captured.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

/// The error of the end of a capture, which leaves no graph.
std::string end_of(cudaStream_t stream) {
  auto* graph = reinterpret_cast<cudaGraph_t>(&stream);  // anything but null
  auto const error = cudaStreamEndCapture(stream, &graph);
  CHECK(graph == nullptr);
  return name_of(error);
}

std::string const invalidated = "cudaErrorStreamCaptureInvalidated";
std::string const unsupported = "cudaErrorStreamCaptureUnsupported";

/// Sets the calling thread's mode during its lifetime.
class Mode {
 public:
  explicit Mode(cudaStreamCaptureMode mode) : mode_{mode} { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Mode(Mode const&) = delete;
  Mode& operator=(Mode const&) = delete;
  ~Mode() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_;
};

/// A capture's mode, and the mode and place of a thread that makes a call meanwhile.
struct Meanwhile {
  cudaStreamCaptureMode capture, thread;
  bool here;

  [[nodiscard]] bool prohibits() const {
    return thread != relaxed_mode && (here ? capture != relaxed_mode : thread == global_mode && capture == global_mode);
  }
  /// The errors of `call` during a capture of `stream`, and of the capture's end.
  [[nodiscard]] std::string errors_of(cudaStream_t stream, std::function<cudaError_t()> const& call) const {
    if (auto const error = cudaStreamBeginCapture(stream, capture); error != cudaSuccess) {
      return name_of(error);
    }
    auto const in_mode = [&] {
      Mode const mode{thread};
      return call();
    };
    auto const error = here ? in_mode() : elsewhere(in_mode);
    cudaGraph_t graph = nullptr;
    auto const at_end = cudaStreamEndCapture(stream, &graph);
    return name_of(error) + ", " + name_of(graph != nullptr ? cudaGraphDestroy(graph) : at_end);
  }
};

std::vector<Meanwhile> all_modes() {
  std::vector<Meanwhile> all;
  for (auto const capture : {global_mode, thread_mode, relaxed_mode}) {
    for (auto const thread : {global_mode, thread_mode, relaxed_mode}) {
      all.push_back({capture, thread, true});
      all.push_back({capture, thread, false});
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a capture begins once, and ends on its stream") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const side = bench.stream();
  CHECK(name_of(cudaStreamBeginCapture(stream, static_cast<cudaStreamCaptureMode>(3))) == "cudaErrorInvalidValue");
  CHECK(end_of(stream) == "cudaErrorIllegalState");
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(name_of(cudaStreamBeginCapture(stream, thread_mode)) == "cudaErrorIllegalState");
  REQUIRE(bench.order(stream, side) == cudaSuccess);
  CHECK(end_of(side) == "cudaErrorStreamCaptureUnmatched");
  static_cast<void>(bench.end(stream));
  CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
  CHECK(status_of(side) == cudaStreamCaptureStatusNone);
}

TEST_CASE("a capture that is not relaxed ends on its thread") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  for (auto const mode : {global_mode, thread_mode, relaxed_mode}) {
    CAPTURE(static_cast<int>(mode));
    REQUIRE(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
    cudaGraph_t graph = nullptr;
    auto const error = elsewhere([&] { return cudaStreamEndCapture(stream, &graph); });
    CHECK(name_of(error) == (mode == relaxed_mode ? "cudaSuccess" : "cudaErrorStreamCaptureWrongThread"));
    if (mode == relaxed_mode) {
      CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    } else {
      static_cast<void>(bench.end(stream));
    }
    CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
  }
}

TEST_CASE("a capture ends with an error if work of another stream was not joined") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const side = bench.stream();
  auto* const other = bench.stream();
  for (bool const later : {false, true}) {
    CAPTURE(later);
    REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
    CHECK(bench.order(stream, side) == cudaSuccess);
    CHECK(bench.order(side, other) == cudaSuccess);
    CHECK(bench.post(side, [] {}) == cudaSuccess);
    CHECK(bench.order(side, stream) == cudaSuccess);
    CHECK(bench.post(stream, [] {}) == cudaSuccess);
    CHECK(bench.post(later ? side : other, [] {}) == cudaSuccess);
    CHECK(end_of(stream) == "cudaErrorStreamCaptureUnjoined");
    for (auto* const each : {stream, side, other}) {
      CHECK(status_of(each) == cudaStreamCaptureStatusNone);
      CHECK(finish(each) == cudaSuccess);
    }
  }
}

TEST_CASE("a captured stream cannot wait for an event that was recorded outside") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const other = bench.stream();
  auto* const event = bench.event();
  CHECK(cudaEventRecord(event, other) == cudaSuccess);
  CHECK(finish(other) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(name_of(cudaStreamWaitEvent(stream, event, 0)) == "cudaErrorStreamCaptureIsolation");
  CHECK(status_of(stream) == cudaStreamCaptureStatusInvalidated);
  CHECK(name_of(bench.post(stream, [] {})) == invalidated);
  CHECK(name_of(cudaEventRecord(event, stream)) == invalidated);
  CHECK(end_of(stream) == invalidated);
  CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
  CHECK(bench.post(stream, [] {}) == cudaSuccess);
  CHECK(finish(stream) == cudaSuccess);
}

TEST_CASE("captures cannot be merged") {
  begin_on({});
  Bench bench;
  auto* const one = bench.stream();
  auto* const two = bench.stream();
  REQUIRE(cudaStreamBeginCapture(one, thread_mode) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(two, thread_mode) == cudaSuccess);
  CHECK(name_of(bench.order(one, two)) == "cudaErrorStreamCaptureMerge");
  CHECK(end_of(one) == invalidated);
  CHECK(end_of(two) == invalidated);
}

TEST_CASE("a captured event cannot be asked") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const event = bench.event();
  REQUIRE(cudaStreamBeginCapture(stream, relaxed_mode) == cudaSuccess);
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(name_of(cudaEventQuery(event)) == "cudaErrorCapturedEvent");
  CHECK(end_of(stream) == invalidated);
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(finish(stream) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaSuccess);
}

TEST_CASE("a captured stream cannot be asked, in any mode") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  for (auto const mode : {global_mode, thread_mode, relaxed_mode}) {
    CAPTURE(static_cast<int>(mode));
    REQUIRE(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
    CHECK(name_of(cudaStreamQuery(stream)) == unsupported);
    CHECK(end_of(stream) == invalidated);
  }
}

TEST_CASE("the modes of a capture and of a thread decide which calls are prohibited") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const idle = bench.stream();
  auto* const event = bench.event();
  void* data = nullptr;
  void* pinned = nullptr;
  auto const malloc = [&] { return cudaMalloc(&data, 256); };
  auto const free = [&] { return cudaFree(data); };
  auto const host_alloc = [&] { return cudaHostAlloc(&pinned, 256, cudaHostAllocDefault); };
  auto const free_host = [&] { return cudaFreeHost(pinned); };
  for (auto const& mode : all_modes()) {
    CAPTURE(static_cast<int>(mode.capture), static_cast<int>(mode.thread), mode.here);
    auto const expected = mode.prohibits() ? unsupported + ", " + invalidated : "cudaSuccess, cudaSuccess";
    CHECK(mode.errors_of(stream, malloc) == expected);
    CHECK((!mode.prohibits() || malloc() == cudaSuccess));
    CHECK(mode.errors_of(stream, free) == expected);
    CHECK((!mode.prohibits() || free() == cudaSuccess));
    CHECK(mode.errors_of(stream, host_alloc) == expected);
    CHECK((!mode.prohibits() || host_alloc() == cudaSuccess));
    CHECK(mode.errors_of(stream, free_host) == expected);
    CHECK((!mode.prohibits() || free_host() == cudaSuccess));
    CHECK(mode.errors_of(stream, [&] { return cudaEventQuery(event); }) == expected);
    CHECK(mode.errors_of(stream, [&] { return cudaStreamQuery(idle); }) == expected);
  }
}

TEST_CASE("threads exchange their modes") {
  begin_on({});
  auto mode = relaxed_mode;
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(mode == global_mode);
  mode = thread_mode;
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(mode == relaxed_mode);
  mode = global_mode;
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(mode == thread_mode);
}

TEST_CASE("external events belong in captures") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const event = bench.event();
  CHECK(name_of(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal)) == "cudaErrorInvalidValue");
  CHECK(name_of(cudaStreamWaitEvent(stream, event, cudaEventWaitExternal)) == "cudaErrorInvalidValue");
  CHECK(cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault) == cudaSuccess);
  CHECK(finish(stream) == cudaSuccess);
}

#ifndef ZEROTH_ON_GPU  // where CUDA's documentation says less, or CUDA allows more
TEST_CASE("nobody waits for an event whose capture has ended or is invalid") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const other = bench.stream();
  auto* const event = bench.event();
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(bench.end(stream) != nullptr);
  CHECK(name_of(cudaStreamWaitEvent(other, event, 0)) == "cudaErrorStreamCaptureIsolation");
  CHECK(name_of(cudaEventQuery(event)) == "cudaErrorCapturedEvent");
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(name_of(cudaStreamWaitEvent(stream, event, 0)) == "cudaErrorStreamCaptureIsolation");
  CHECK(end_of(stream) == invalidated);
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(name_of(cudaStreamQuery(stream)) == unsupported);
  CHECK(name_of(cudaStreamQuery(stream)) == invalidated);
  CHECK(name_of(cudaStreamWaitEvent(other, event, 0)) == "cudaErrorInvalidValue");
  CHECK(end_of(stream) == invalidated);
}

TEST_CASE("an event that was never recorded is not a part of a capture") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(name_of(cudaStreamWaitEvent(stream, bench.event(), 0)) == "cudaErrorStreamCaptureIsolation");
  CHECK(end_of(stream) == invalidated);
}

TEST_CASE("a capture that is ended on another of its streams is invalid") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const side = bench.stream();
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(bench.order(stream, side) == cudaSuccess);
  CHECK(end_of(side) == "cudaErrorStreamCaptureUnmatched");
  CHECK(status_of(side) == cudaStreamCaptureStatusInvalidated);
  CHECK(end_of(stream) == invalidated);
}

TEST_CASE("the default stream takes no part in captures") {
  fake_cuda::reset({.default_stream = true});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const event = bench.event();
  CHECK(name_of(cudaStreamBeginCapture(nullptr, thread_mode)) == unsupported);
  std::string const implicit = "cudaErrorStreamCaptureImplicit";
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  auto status = cudaStreamCaptureStatusNone;
  CHECK(name_of(cudaStreamIsCapturing(nullptr, &status)) == implicit);
  CHECK(status_of(stream) == cudaStreamCaptureStatusActive);
  CHECK(elsewhere([&] { return bench.post(nullptr, [] {}); }) == cudaSuccess);  // another rank's, in reality
  CHECK(status_of(stream) == cudaStreamCaptureStatusActive);
  CHECK(name_of(bench.post(nullptr, [] {})) == implicit);
  CHECK(end_of(stream) == invalidated);
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(name_of(cudaStreamWaitEvent(nullptr, event, 0)) == implicit);
  CHECK(end_of(stream) == invalidated);
  CHECK(bench.post(nullptr, [] {}) == cudaSuccess);
  CHECK(finish(nullptr) == cudaSuccess);
}

TEST_CASE("the end of a stream invalidates its capture") {
  begin_on({});
  Bench bench;
  auto* const stream = bench.stream();
  auto* const event = bench.event();
  cudaStream_t side = nullptr;
  REQUIRE(cudaStreamCreateWithPriority(&side, cudaStreamNonBlocking, 0) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, thread_mode) == cudaSuccess);
  CHECK(bench.order(stream, side) == cudaSuccess);
  CHECK(cudaStreamDestroy(side) == cudaSuccess);
  CHECK(end_of(stream) == invalidated);
  REQUIRE(cudaStreamCreateWithPriority(&side, cudaStreamNonBlocking, 0) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(side, thread_mode) == cudaSuccess);
  CHECK(cudaEventRecord(event, side) == cudaSuccess);
  CHECK(bench.order(side, stream) == cudaSuccess);
  CHECK(cudaStreamDestroy(side) == cudaSuccess);
  CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
}
#endif

}  // namespace zeroth::testing
