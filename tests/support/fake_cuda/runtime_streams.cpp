// SPDX-License-Identifier: Apache-2.0
/// The functions of the CUDA runtime: streams and events.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "support/fake_cuda/capture.hpp"
#include "support/fake_cuda/machine.hpp"

using zeroth::testing::fake_cuda::answer;
using zeroth::testing::fake_cuda::ask_for;
using zeroth::testing::fake_cuda::current_gpu;
using zeroth::testing::fake_cuda::greatest_priority;
using zeroth::testing::fake_cuda::issue_same;
using zeroth::testing::fake_cuda::least_priority;
using zeroth::testing::fake_cuda::Point;
using zeroth::testing::fake_cuda::run_host_function;
using zeroth::testing::fake_cuda::State;

namespace {

cudaError_t record_as(char const* function, cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  stream = state.resolve(stream);
  if (!state.streams.contains(stream) || !state.events.contains(event) || event->gpu != stream->gpu) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  if (auto const error = state.enter(function, stream->gpu); error != cudaSuccess) {
    return answer(error);
  }
  return answer(record(state, event, stream, flags == cudaEventRecordExternal));
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  int const gpu = current_gpu();
  if (auto const error = state.enter("cudaStreamCreateWithPriority", gpu); error != cudaSuccess) {
    return answer(error);
  }
  if (flags != cudaStreamNonBlocking) {
    return answer(cudaErrorInvalidValue);  // the default stream would order it after work that it must not wait for
  }
  auto const delays = state.machine.delays;
  auto const made =
      std::make_shared<CUstream_st>(gpu, std::clamp(priority, greatest_priority, least_priority),
                                    delays == 0 ? 0 : delays + static_cast<unsigned>(state.streams.size()));
  *stream = made.get();
  state.streams.emplace(*stream, made);
  return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  stream = state.resolve(stream);
  if (!state.streams.contains(stream)) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  *priority = stream->priority;
  return answer(state.enter("cudaStreamGetPriority", stream->gpu));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  auto& state = State::get();
  std::shared_ptr<CUstream_st> last;  // destroyed without the lock, once it is idle
  std::lock_guard const lock{state.mutex};
  auto const error = state.enter("cudaStreamDestroy", current_gpu());
  auto const found = state.streams.find(stream);
  if (found == state.streams.end()) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  leave(state, *stream);
  last = std::move(found->second);
  state.streams.erase(found);
  return answer(error);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  auto& state = State::get();
  {
    std::lock_guard const lock{state.mutex};
    stream = state.resolve(stream);
    if (!state.streams.contains(stream)) {
      return answer(cudaErrorInvalidResourceHandle);
    }
    auto const asked = ask_for(state, stream);
    auto const entered = state.enter("cudaStreamQuery", stream->gpu);
    if (asked != cudaSuccess || entered != cudaSuccess) {
      return answer(asked != cudaSuccess ? asked : entered);
    }
  }
  bool const idle = stream->idle();
  std::lock_guard const lock{state.mutex};  // its work may have failed meanwhile
  auto const error = state.gpus[static_cast<std::size_t>(stream->gpu)].error.load();
  return answer(error != cudaSuccess ? error : idle ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  stream = state.resolve(stream);
  if (!state.streams.contains(stream) || !state.events.contains(event)) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  if (auto const error = state.enter("cudaStreamWaitEvent", stream->gpu); error != cudaSuccess) {
    return answer(error);
  }
  return answer(wait(state, stream, event, flags == cudaEventWaitExternal));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  stream = state.resolve(stream);
  if (!state.streams.contains(stream) || function == nullptr) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  int const gpu = stream->gpu;
  if (auto const error = state.enter("cudaLaunchHostFunc", gpu); error != cudaSuccess) {
    return answer(error);
  }
  return answer(issue_same(state, stream, [function, data, gpu] {
    if (State::get().may_run(gpu)) {
      run_host_function(function, data);
    }
  }));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (auto const error = state.enter("cudaEventCreateWithFlags", current_gpu()); error != cudaSuccess) {
    return answer(error);
  }
  *event = new CUevent_st{std::make_shared<Point>(), current_gpu(), nullptr, {}};
  (*event)->point->timed = (flags & cudaEventDisableTiming) == 0;
  state.timed_events += (*event)->point->timed ? 1 : 0;
  state.events.insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  auto const error = state.enter("cudaEventDestroy", current_gpu());
  if (state.events.erase(event) == 0) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  delete event;
  return answer(error);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return record_as("cudaEventRecord", event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return record_as("cudaEventRecordWithFlags", event, stream, flags);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (!state.events.contains(event)) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  auto const asked = ask_for(event);
  auto const entered = state.enter("cudaEventQuery", current_gpu());
  if (asked != cudaSuccess || entered != cudaSuccess) {
    return answer(asked != cudaSuccess ? asked : entered);
  }
  std::lock_guard const point_lock{event->point->mutex};
  return answer(event->point->passed() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  if (!state.events.contains(begin) || !state.events.contains(end) || !begin->point->timed || !end->point->timed ||
      begin->gpu != end->gpu) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  if (auto const error = state.enter("cudaEventElapsedTime", current_gpu()); error != cudaSuccess) {
    return answer(error);
  }
  for (auto* const event : {begin, end}) {
    if (auto const error = ask_for(event); error != cudaSuccess) {
      return answer(error);
    }
  }
  std::scoped_lock const point_lock{begin->point->mutex, end->point->mutex};
  for (auto const* const event : {begin, end}) {
    if (event->point->recorded == 0 || !event->point->passed()) {
      return answer(event->point->recorded == 0 ? cudaErrorInvalidResourceHandle : cudaErrorNotReady);
    }
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->point->at - begin->point->at).count();
  return cudaSuccess;
}

}  // extern "C"
