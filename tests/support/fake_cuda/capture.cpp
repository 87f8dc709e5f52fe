// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cuda/capture.hpp"

#include <algorithm>
#include <utility>

namespace zeroth::testing::fake_cuda {
namespace {

/// Calls that no stream sees, or that ask about work that does not run.
std::set<std::string> const& unsafe_functions() {
  static std::set<std::string> const all{"cudaMalloc",
                                         "cudaFree",
                                         "cudaHostAlloc",
                                         "cudaFreeHost",
                                         "cudaEventQuery",
                                         "cudaStreamQuery",
                                         "cudaDeviceEnablePeerAccess"};
  return all;
}

bool prohibits(Capture const& capture) {
  bool const is_mine = capture.thread == std::this_thread::get_id();
  switch (mode_of_thread()) {
    case cudaStreamCaptureModeRelaxed: return false;
    case cudaStreamCaptureModeThreadLocal: return is_mine && capture.mode != cudaStreamCaptureModeRelaxed;
    default:
      return is_mine ? capture.mode != cudaStreamCaptureModeRelaxed : capture.mode == cudaStreamCaptureModeGlobal;
  }
}

/// Work of a thread that captures on a GPU's default stream, on which work of others may then depend.
cudaError_t expect_explicit(State& state, cudaStream_t stream) {
  if (!is_implicit(state, stream)) {
    return cudaSuccess;
  }
  for (auto const& capture : state.captures) {
    capture->invalid |= capture->thread == std::this_thread::get_id() && capture->origin->gpu == stream->gpu;
  }
  return cudaErrorStreamCaptureImplicit;
}

void finish(State& state, std::shared_ptr<Capture> const& capture) {
  capture->ended = true;
  for (auto const& [stream, nodes] : capture->last) {
    stream->capture.reset();
  }
  capture->last.clear();
  state.captures.erase(capture);
}

std::uint64_t last_record_of(std::shared_ptr<Point> const& point) {
  std::lock_guard const lock{point->mutex};
  return point->recorded;
}

/// Work that passes `point`. Its record is the launch's.
Prepare passing(std::shared_ptr<Point> point) {
  return [point = std::move(point)] {
    std::uint64_t number = 0;
    {
      std::lock_guard const lock{point->mutex};
      number = point->record();
    }
    return [point, number] { point->pass(number, State::get().pass_event(point->timed)); };
  };
}

/// Work that waits for the last record before the launch. An event that was never recorded counts as passed.
Prepare waiting(std::shared_ptr<Point> point) {
  return [point = std::move(point)] { return [point, number = last_record_of(point)] { point->wait_for(number); }; };
}

/// Lets `stream`, which is in no capture, join that of `event`.
cudaError_t join(State& state, cudaStream_t stream, CUevent_st const& event) {
  if (event.capture->ended) {
    return cudaErrorStreamCaptureIsolation;
  }
  if (event.capture->invalid) {
    return cudaErrorInvalidValue;
  }
  if (state.is_default(stream)) {
    event.capture->invalid = true;
    return cudaErrorStreamCaptureImplicit;
  }
  stream->capture = event.capture;
  event.capture->last[stream] = event.captured;
  ++event.capture->graph->streams;
  return cudaSuccess;
}

}  // namespace

cudaStreamCaptureMode& mode_of_thread() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

bool is_implicit(State const& state, cudaStream_t stream) {
  return state.is_default(stream) && std::ranges::any_of(state.captures, [stream](auto const& capture) {
           return capture->thread == std::this_thread::get_id() && capture->origin->gpu == stream->gpu;
         });
}

cudaError_t issue(State& state, cudaStream_t stream, Prepare const& prepare, void const* line) {
  if (stream->capture == nullptr) {
    if (auto const error = expect_explicit(state, stream); error != cudaSuccess) {
      return error;
    }
    stream->push(prepare());
    return cudaSuccess;
  }
  auto& capture = *stream->capture;
  if (capture.invalid) {
    return cudaErrorStreamCaptureInvalidated;
  }
  auto& last = capture.last[stream];
  CUgraphNode_st node{prepare, last, std::nullopt, line != nullptr};
  if (auto const found = capture.last_in_line.find(line); line != nullptr && found != capture.last_in_line.end()) {
    node.previous = found->second;
  }
  auto const number = capture.graph->add(std::move(node));
  if (line != nullptr) {
    capture.last_in_line[line] = number;
  }
  last = {number};
  return cudaSuccess;
}

cudaError_t issue_same(State& state, cudaStream_t stream, std::function<void()> work) {
  return issue(state, stream, [work = std::move(work)] { return work; });
}

cudaError_t prohibited(State& state, std::string const& function) {
  if (state.captures.empty() || !unsafe_functions().contains(function)) {
    return cudaSuccess;
  }
  auto error = cudaSuccess;
  for (auto const& capture : state.captures) {
    if (prohibits(*capture)) {
      capture->invalid = true;
      error = cudaErrorStreamCaptureUnsupported;
    }
  }
  return error;
}

cudaError_t ask_for(State& state, cudaStream_t stream) {
  if (stream->capture == nullptr) {
    return expect_explicit(state, stream);
  }
  bool const was_invalid = std::exchange(stream->capture->invalid, true);
  return was_invalid ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnsupported;
}

cudaError_t ask_for(cudaEvent_t event) {
  if (event->capture == nullptr) {
    return cudaSuccess;
  }
  event->capture->invalid = true;
  return cudaErrorCapturedEvent;
}

cudaError_t begin(State& state, cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) {
    return cudaErrorInvalidValue;
  }
  if (state.is_default(stream)) {
    return cudaErrorStreamCaptureUnsupported;
  }
  if (stream->capture != nullptr) {
    return cudaErrorIllegalState;
  }
  static unsigned long long ids = 0;
  auto const capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->id = ++ids;
  capture->last[stream];
  stream->capture = capture;
  state.captures.insert(capture);
  return cudaSuccess;
}

cudaError_t end(State& state, cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  auto const capture = stream->capture;
  if (capture == nullptr) {
    return cudaErrorIllegalState;
  }
  if (capture->origin != stream) {
    capture->invalid = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  auto const joined = capture->graph->reaching(capture->last[stream], false);
  finish(state, capture);
  if (capture->invalid) {
    return cudaErrorStreamCaptureInvalidated;
  }
  if (!std::ranges::all_of(joined, [](bool each) { return each; })) {
    return cudaErrorStreamCaptureUnjoined;
  }
  *graph = capture->graph.release();
  state.graphs.insert(*graph);
  return cudaSuccess;
}

cudaError_t record(State& state, cudaEvent_t event, cudaStream_t stream, bool external) {
  auto const& capture = stream->capture;
  if (external && capture == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (capture == nullptr || external) {
    auto const error = issue(state, stream, passing(event->point));
    if (error == cudaSuccess) {
      event->capture.reset();
    }
    return error;
  }
  if (capture->invalid) {
    return cudaErrorStreamCaptureInvalidated;
  }
  event->capture = capture;
  event->captured = capture->last[stream];
  return cudaSuccess;
}

cudaError_t wait(State& state, cudaStream_t stream, cudaEvent_t event, bool external) {
  auto const& capture = stream->capture;
  if (capture == nullptr) {
    if (external) {
      return cudaErrorInvalidValue;
    }
    if (event->capture != nullptr) {
      return join(state, stream, *event);
    }
    return last_record_of(event->point) == 0 ? cudaSuccess : issue(state, stream, waiting(event->point));
  }
  if (external) {
    return issue(state, stream, waiting(event->point));
  }
  if (capture->invalid) {
    return cudaErrorStreamCaptureInvalidated;
  }
  if (event->capture == capture) {
    capture->last[stream].insert(event->captured.begin(), event->captured.end());
    return cudaSuccess;
  }
  capture->invalid = true;
  if (event->capture == nullptr || event->capture->ended) {
    return cudaErrorStreamCaptureIsolation;
  }
  event->capture->invalid = true;
  return cudaErrorStreamCaptureMerge;
}

void leave(State& state, CUstream_st& stream) {
  auto const capture = stream.capture;
  if (capture == nullptr) {
    return;
  }
  capture->invalid = true;
  if (capture->origin == &stream) {
    finish(state, capture);
  } else {
    capture->last.erase(&stream);
    stream.capture.reset();
  }
}

}  // namespace zeroth::testing::fake_cuda
