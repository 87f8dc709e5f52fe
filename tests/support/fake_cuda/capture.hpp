// SPDX-License-Identifier: Apache-2.0
/// Captures of streams, as the CUDA runtime for tests keeps them. Functions are called with the state's mutex.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/fake_cuda/graph.hpp"
#include "support/fake_cuda/machine.hpp"

namespace zeroth::testing::fake_cuda {

/// From cudaStreamBeginCapture to cudaStreamEndCapture. Streams and events refer to it.
struct Capture {
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread = std::this_thread::get_id();
  unsigned long long id = 0;
  bool invalid = false, ended = false;
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  std::map<cudaStream_t, std::set<std::size_t>> last;  // nodes that a stream's next one depends on
  std::map<void const*, std::size_t> last_in_line;     // by line
  std::vector<cudaGraphNode_t> dependencies;           // as the last question about a stream returned them
  std::vector<cudaGraphEdgeData> dependencies_edge_data;
};

/// The mode that the calling thread has chosen for itself.
[[nodiscard]] cudaStreamCaptureMode& mode_of_thread();

/// Pushes work to its stream, or adds it to the stream's capture.
[[nodiscard]] cudaError_t issue(State& state, cudaStream_t stream, Prepare const& prepare, void const* line = nullptr);
/// As issue(), for work that is the same at each launch of a graph.
[[nodiscard]] cudaError_t issue_same(State& state, cudaStream_t stream, std::function<void()> work);

/// The error of a function that a capture of the calling thread, or of any thread, prohibits. Invalidates the capture.
[[nodiscard]] cudaError_t prohibited(State& state, std::string const& function);
/// The error of a request for the state of a stream's work; invalidates its capture.
[[nodiscard]] cudaError_t ask_for(State& state, cudaStream_t stream);
/// The error of a request for the state of an event; invalidates its capture.
[[nodiscard]] cudaError_t ask_for(cudaEvent_t event);

[[nodiscard]] cudaError_t begin(State& state, cudaStream_t stream, cudaStreamCaptureMode mode);
/// The graph becomes the caller's; null if there is an error.
[[nodiscard]] cudaError_t end(State& state, cudaStream_t stream, cudaGraph_t* graph);
[[nodiscard]] cudaError_t record(State& state, cudaEvent_t event, cudaStream_t stream, bool external);
[[nodiscard]] cudaError_t wait(State& state, cudaStream_t stream, cudaEvent_t event, bool external);
/// A stream of a capture is destroyed.
void leave(State& state, CUstream_st& stream);
/// Whether the stream is the default one, and the calling thread captures on its GPU.
[[nodiscard]] bool is_implicit(State const& state, cudaStream_t stream);

}  // namespace zeroth::testing::fake_cuda
