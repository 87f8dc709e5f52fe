// SPDX-License-Identifier: Apache-2.0
/// Streams, events and graphs for tests of captures, without the library: plain calls of the CUDA runtime.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/gpus.hpp"

namespace zeroth::testing {

inline constexpr auto global_mode = cudaStreamCaptureModeGlobal;
inline constexpr auto thread_mode = cudaStreamCaptureModeThreadLocal;
inline constexpr auto relaxed_mode = cudaStreamCaptureModeRelaxed;

/// Handles that are destroyed with it. Streams are on the current GPU.
class Bench {
 public:
  Bench() = default;
  Bench(Bench const&) = delete;
  Bench& operator=(Bench const&) = delete;
  ~Bench() {
    for (auto* const each : executables_) {
      cudaGraphExecDestroy(each);
    }
    for (auto* const each : graphs_) {
      cudaGraphDestroy(each);
    }
    for (auto* const each : events_) {
      cudaEventDestroy(each);
    }
    for (auto* const each : streams_) {
      cudaStreamDestroy(each);
    }
  }

  [[nodiscard]] cudaStream_t stream() {
    cudaStream_t made = nullptr;
    cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, 0);
    return streams_.emplace_back(made);
  }
  [[nodiscard]] cudaEvent_t event() {
    cudaEvent_t made = nullptr;
    cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    return events_.emplace_back(made);
  }
  /// A call of the host as work of `stream`.
  cudaError_t post(cudaStream_t stream, std::function<void()> work) {
    auto& kept = work_.emplace_back(std::move(work));
    return cudaLaunchHostFunc(
        stream, [](void* data) { (*static_cast<std::function<void()>*>(data))(); }, &kept);
  }
  /// Makes `waiting` wait for the work enqueued on `stream`.
  cudaError_t order(cudaStream_t stream, cudaStream_t waiting) {
    auto* const point = event();
    auto const error = cudaEventRecord(point, stream);
    return error == cudaSuccess ? cudaStreamWaitEvent(waiting, point, 0) : error;
  }
  /// Ends the capture; null if there is an error.
  [[nodiscard]] cudaGraph_t end(cudaStream_t stream, cudaError_t* error = nullptr) {
    cudaGraph_t graph = nullptr;
    auto const result = cudaStreamEndCapture(stream, &graph);
    if (error != nullptr) {
      *error = result;
    }
    return graph == nullptr ? nullptr : graphs_.emplace_back(graph);
  }
  [[nodiscard]] cudaGraphExec_t instantiate(cudaGraph_t graph) {
    cudaGraphExec_t made = nullptr;
    return cudaGraphInstantiate(&made, graph, 0) == cudaSuccess ? executables_.emplace_back(made) : nullptr;
  }
  [[nodiscard]] cudaGraphExec_t end_and_instantiate(cudaStream_t stream) {
    auto* const graph = end(stream);
    return graph == nullptr ? nullptr : instantiate(graph);
  }

 private:
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
  std::vector<cudaGraph_t> graphs_;
  std::vector<cudaGraphExec_t> executables_;
  std::deque<std::function<void()>> work_;
};

/// Waits until `stream` has nothing to do, and returns its error.
inline cudaError_t finish(cudaStream_t stream) {
  for (;;) {
    auto const error = cudaStreamQuery(stream);
    if (error != cudaErrorNotReady) {
      return error;
    }
    std::this_thread::yield();
  }
}

[[nodiscard]] inline cudaStreamCaptureStatus status_of(cudaStream_t stream) {
  auto status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &status);
  return status;
}

[[nodiscard]] inline std::size_t nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  cudaGraphGetNodes(graph, nullptr, &count);
  return count;
}
[[nodiscard]] inline std::size_t edges_of(cudaGraph_t graph) {
  std::size_t count = 0;
  cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count);
  return count;
}

/// Makes a call on another thread, and returns its result.
[[nodiscard]] inline cudaError_t elsewhere(std::function<cudaError_t()> const& call) {
  auto result = cudaSuccess;
  std::jthread{[&] { result = call(); }}.join();
  return result;
}

/// The name of an error, for messages of failed checks.
[[nodiscard]] inline std::string name_of(cudaError_t error) { return cudaGetErrorName(error); }

}  // namespace zeroth::testing
