// SPDX-License-Identifier: Apache-2.0
/// The functions of the CUDA runtime: captures of streams, and graphs.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "support/fake_cuda/capture.hpp"
#include "support/fake_cuda/graph.hpp"
#include "support/fake_cuda/machine.hpp"

using zeroth::testing::fake_cuda::answer;
using zeroth::testing::fake_cuda::current_gpu;
using zeroth::testing::fake_cuda::Executable;
using zeroth::testing::fake_cuda::is_implicit;
using zeroth::testing::fake_cuda::issue;
using zeroth::testing::fake_cuda::mode_of_thread;
using zeroth::testing::fake_cuda::State;

namespace {

/// Fills `count` places with `values`, and null beyond them, as CUDA does; or returns their number.
template <class T, class Value>
void give(std::vector<T> const& values, Value* places, std::size_t* count) {
  if (places != nullptr) {
    std::fill_n(places, *count, Value{});
    std::copy_n(values.begin(), std::min(*count, values.size()), places);
    *count = std::min(*count, values.size());
  } else {
    *count = values.size();
  }
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  stream = state.resolve(stream);
  if (!state.streams.contains(stream)) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  if (auto const error = state.enter("cudaStreamBeginCapture", stream->gpu); error != cudaSuccess) {
    return answer(error);
  }
  return answer(begin(state, stream, mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  stream = state.resolve(stream);
  *graph = nullptr;
  if (!state.streams.contains(stream)) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  if (auto const error = state.enter("cudaStreamEndCapture", stream->gpu); error != cudaSuccess) {
    return answer(error);
  }
  return answer(end(state, stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, cudaGraphNode_t const** dependencies,
                                     cudaGraphEdgeData const** edge_data, std::size_t* count) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  stream = state.resolve(stream);
  if (!state.streams.contains(stream)) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  if (auto const error = state.enter("cudaStreamGetCaptureInfo", stream->gpu); error != cudaSuccess) {
    return answer(error);
  }
  if (is_implicit(state, stream)) {
    return answer(cudaErrorStreamCaptureImplicit);
  }
  auto const& capture = stream->capture;
  if (capture == nullptr || capture->invalid) {
    *status = capture == nullptr ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  }
  *status = cudaStreamCaptureStatusActive;
  capture->dependencies.clear();
  for (auto const node : capture->last[stream]) {
    capture->dependencies.push_back(&capture->graph->nodes[node]);
  }
  capture->dependencies_edge_data.assign(capture->dependencies.size(), {});
  auto const set = [](auto* place, auto const& value) {
    if (place != nullptr) {
      *place = value;
    }
  };
  set(id, capture->id);
  set(graph, capture->graph.get());
  set(dependencies, static_cast<cudaGraphNode_t const*>(capture->dependencies.data()));
  set(edge_data, static_cast<cudaGraphEdgeData const*>(capture->dependencies_edge_data.data()));
  set(count, capture->dependencies.size());
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (auto const error = state.enter("cudaThreadExchangeStreamCaptureMode", current_gpu()); error != cudaSuccess) {
    return answer(error);
  }
  if (*mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed) {
    return answer(cudaErrorInvalidValue);
  }
  std::swap(*mode, mode_of_thread());
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (auto const error = state.enter("cudaGraphInstantiate", current_gpu()); error != cudaSuccess) {
    return answer(error);
  }
  auto const edges = state.graphs.contains(graph) ? graph->edges(false).size() : 0;
  if (!state.graphs.contains(graph) || flags != 0 || (state.edge_to_drop && *state.edge_to_drop >= edges)) {
    return answer(cudaErrorInvalidValue);
  }
  auto const dropped = std::exchange(state.edge_to_drop, std::nullopt);
  auto const seed = state.graph_seed + 1000 * static_cast<unsigned>(state.graphs_made.size());
  auto const made = std::make_shared<Executable>(*graph, dropped, seed, state.machine.delays);
  state.graphs_made.push_back({graph->nodes.size(), edges, dropped.has_value(), made->redundant()});
  *executable = new CUgraphExec_st{made};
  state.executables.insert(*executable);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  stream = state.resolve(stream);
  if (!state.streams.contains(stream)) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  if (auto const error = state.enter("cudaGraphLaunch", stream->gpu); error != cudaSuccess) {
    return answer(error);
  }
  if (!state.executables.contains(executable)) {
    return answer(cudaErrorInvalidValue);
  }
  return answer(issue(state, stream, [all = executable->executable] { return Executable::prepare(all); }));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  auto& state = State::get();
  std::unique_ptr<CUgraphExec_st> last;  // destroyed without the lock: what work owns may call CUDA
  std::lock_guard const lock{state.mutex};
  auto const error = state.enter("cudaGraphExecDestroy", current_gpu());
  if (state.executables.erase(executable) == 0) {
    return answer(cudaErrorInvalidValue);
  }
  last.reset(executable);
  return answer(error);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  auto& state = State::get();
  std::unique_ptr<CUgraph_st> last;  // likewise
  std::lock_guard const lock{state.mutex};
  auto const error = state.enter("cudaGraphDestroy", current_gpu());
  if (state.graphs.erase(graph) == 0) {
    return answer(cudaErrorInvalidValue);
  }
  last.reset(graph);
  return answer(error);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (!state.graphs.contains(graph)) {
    return answer(cudaErrorInvalidValue);
  }
  std::vector<cudaGraphNode_t> all;
  for (auto& node : graph->nodes) {
    all.push_back(&node);
  }
  give(all, nodes, count);
  return answer(state.enter("cudaGraphGetNodes", current_gpu()));
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* edge_data, std::size_t* count) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (!state.graphs.contains(graph) || (from == nullptr) != (to == nullptr)) {
    return answer(cudaErrorInvalidValue);
  }
  std::vector<cudaGraphNode_t> first, second;
  for (auto const& [a, b] : graph->edges(true)) {
    first.push_back(&graph->nodes[a]);
    second.push_back(&graph->nodes[b]);
  }
  if (edge_data != nullptr) {
    std::fill_n(edge_data, from == nullptr ? 0 : *count, cudaGraphEdgeData{});
  }
  auto room = *count;
  give(first, from, &room);
  give(second, to, count);
  return answer(state.enter("cudaGraphGetEdges", current_gpu()));
}

}  // extern "C"
