// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cuda/machine.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "support/fake_cuda/capture.hpp"

using zeroth::testing::fake_cuda::State;

CUstream_st::CUstream_st(int on_gpu, int of_priority, unsigned delay_seed)
    : gpu{on_gpu}, priority{of_priority}, delays_{delay_seed}, worker_{[this] { run(); }} {}

CUstream_st::~CUstream_st() {
  {
    std::lock_guard const lock{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void CUstream_st::push(std::function<void()> entry) {
  {
    std::lock_guard const lock{mutex_};
    queue_.push_back(std::move(entry));
  }
  changed_.notify_all();
}

bool CUstream_st::idle() {
  std::lock_guard const lock{mutex_};
  return queue_.empty() && !busy_;
}

void CUstream_st::drain() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void CUstream_st::run() {
  unsigned random = delays_ * 2654435761U;
  for (std::unique_lock lock{mutex_};;) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) {
      return;
    }
    auto const entry = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    if (delays_ != 0) {
      random = random * 1664525U + 1013904223U;
      if (random >> 29U == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds{(random >> 16U) % 400});
      }
    }
    entry();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

namespace zeroth::testing::fake_cuda {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local bool in_host_function = false;

}  // namespace

int& current_gpu() {
  thread_local int gpu = 0;
  return gpu;
}

cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) {
    last_error = error;
  }
  return error;
}

cudaError_t take_last_error() { return std::exchange(last_error, cudaSuccess); }

void run_host_function(cudaHostFn_t function, void* data) {
  static std::mutex one_at_a_time;
  std::lock_guard const lock{one_at_a_time};
  in_host_function = true;
  function(data);
  in_host_function = false;
}

void Point::pass(std::uint64_t number, std::chrono::steady_clock::time_point when) {
  {
    std::lock_guard const lock{mutex};
    ahead.erase(number);
    if (number == recorded) {
      at = when;
    }
  }
  passed_on.notify_all();
}

void Point::wait_for(std::uint64_t number) {
  std::unique_lock lock{mutex};
  passed_on.wait(lock, [&] { return !ahead.contains(number); });
}

State& State::get() {
  static State state;
  static bool const once = [] {
    state.gpus.resize(1);
    return true;
  }();
  static_cast<void>(once);
  return state;
}

cudaError_t State::enter(char const* function, int gpu) {
  ++calls[function];
  if (in_host_function) {
    return cudaErrorNotPermitted;
  }
  if (auto const found = refusals.find(function); found != refusals.end() && found->second.first-- == 0) {
    auto const error = found->second.second;
    refusals.erase(found);
    return error;
  }
  auto const error = gpus[static_cast<std::size_t>(gpu)].error.load();
  return error != cudaSuccess ? error : prohibited(*this, function);
}

bool State::is_default(cudaStream_t stream) const {
  auto const found = default_streams.find(stream->gpu);
  return found != default_streams.end() && found->second == stream;
}

cudaStream_t State::resolve(cudaStream_t stream) {
  if (stream != nullptr || !machine.default_stream) {
    return stream;
  }
  auto& handle = default_streams[current_gpu()];
  if (handle == nullptr) {
    auto const made = std::make_shared<CUstream_st>(current_gpu(), least_priority, machine.delays);
    handle = made.get();
    streams.emplace(handle, made);
  }
  return handle;
}

State::Block const* State::find(void const* data, std::size_t bytes) const {
  auto const address = reinterpret_cast<std::uintptr_t>(data);
  auto const next = blocks.upper_bound(address);
  if (next == blocks.begin()) {
    return nullptr;
  }
  auto const& [begin, block] = *std::prev(next);
  return address + bytes <= begin + block.bytes ? &block : nullptr;
}

bool State::reaches(int gpu, void const* data, std::size_t bytes) const {
  auto const* const block = find(data, bytes);
  if (block == nullptr) {
    return machine.reaches_host_memory;
  }
  return block->gpu < 0 || block->gpu == gpu || gpus[static_cast<std::size_t>(gpu)].reaches.contains(block->gpu);
}

std::chrono::steady_clock::time_point State::pass_event(bool timed) {
  std::lock_guard const lock{mutex};
  if (machine.timed_event_us == 0) {
    return std::chrono::steady_clock::now();
  }
  time_us += timed ? machine.timed_event_us : 0;
  return std::chrono::steady_clock::time_point{std::chrono::microseconds{time_us}};
}

bool State::may_run(int gpu) {
  std::lock_guard const lock{mutex};
  if (gpu == 0 && work_to_fail && work_to_fail->first-- == 0) {
    gpus[0].error = work_to_fail->second;
    work_to_fail.reset();
  }
  return gpus[static_cast<std::size_t>(gpu)].error == cudaSuccess;
}

void reset(Machine const& machine) {
  if (auto const left = leftovers(); !left.empty()) {
    std::fprintf(stderr, "the last machine still has %s\n", left.c_str());
    std::abort();
  }
  auto& state = State::get();
  decltype(state.lost) lost;
  std::map<cudaStream_t, std::shared_ptr<CUstream_st>> ended;  // destroyed without the lock, and before `lost`
  std::lock_guard const lock{state.mutex};
  ended.swap(state.streams);
  state.default_streams.clear();
  state.machine = machine;
  state.gpus.clear();
  state.gpus.resize(static_cast<std::size_t>(machine.gpus));
  state.loaded.clear();
  lost.swap(state.lost);
  state.calls.clear();
  state.timed_events = 0;
  state.time_us = 0;
  state.refusals.clear();
  state.work_to_fail.reset();
  state.graphs_made.clear();
  state.edge_to_drop.reset();
  state.graph_seed = machine.graph_seed != 0 ? machine.graph_seed : std::random_device{}();
  last_error = cudaSuccess;
  current_gpu() = 0;
}

std::string leftovers() {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  std::string text;
  auto const add = [&](std::size_t count, char const* what) {
    if (count > 0) {
      text += (text.empty() ? "" : ", ") + std::to_string(count) + what;
    }
  };
  add(state.blocks.size(), " blocks");
  add(state.streams.size() - state.default_streams.size(), " streams");
  add(state.events.size(), " events");
  add(state.graphs.size(), " graphs");
  add(state.executables.size(), " executable graphs");
  return text;
}

cudaError_t enqueue_in_line(cudaStream_t stream, Prepare prepare, void const* line) {
  auto& state = State::get();
  Prepare if_it_may;  // destroyed without the lock: what it owns may call CUDA
  std::lock_guard const lock{state.mutex};
  stream = state.resolve(stream);
  if (!state.streams.contains(stream)) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  if (auto const error = state.enter("launch", stream->gpu); error != cudaSuccess) {
    return answer(error);
  }
  if_it_may = [&state, gpu = stream->gpu, prepare = std::move(prepare)] {
    return [&state, gpu, work = prepare()] {
      if (state.may_run(gpu)) {
        work();
      }
    };
  };
  return answer(issue(state, stream, if_it_may, line));
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  return enqueue_in_line(
      stream, [work = std::move(work)] { return work; }, nullptr);
}

std::vector<GraphMade> graphs_made() {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  return state.graphs_made;
}

void drop_edge(std::size_t edge) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  state.edge_to_drop = edge;
}

unsigned graph_seed() {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  return state.graph_seed;
}

std::map<std::string, std::int64_t> calls() {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  return state.calls;
}

std::int64_t calls(std::string const& function) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  auto const found = state.calls.find(function);
  return found == state.calls.end() ? 0 : found->second;
}

std::int64_t timed_events_made() {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  return state.timed_events;
}

std::int64_t time_us() {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  return state.time_us;
}

void pass_time(std::int64_t microseconds) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  state.time_us += microseconds;
}

std::int64_t bytes_in_use() {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  return static_cast<std::int64_t>(state.gpus.front().bytes_in_use);
}

std::int64_t pinned_bytes() {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  std::int64_t bytes = 0;
  for (auto const& [address, block] : state.blocks) {
    bytes += block.gpu < 0 ? static_cast<std::int64_t>(block.bytes) : 0;
  }
  return bytes;
}

void refuse(std::string const& function, cudaError_t error, int after) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  state.refusals[function] = {after, error};
}

void fail_work(cudaError_t error, int after) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  state.work_to_fail = {after, error};
}

}  // namespace zeroth::testing::fake_cuda
