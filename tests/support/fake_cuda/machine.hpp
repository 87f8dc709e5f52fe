// SPDX-License-Identifier: Apache-2.0
/// The state of the CUDA runtime for tests.
#pragma once
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/fake_cuda/fake_cuda.hpp"

namespace zeroth::testing::fake_cuda {

/// Priorities of streams: the smaller number runs first.
inline constexpr int least_priority = 0, greatest_priority = -5;

/// A point that streams pass. Shared by the handle and the work that refers to it. Several streams may record it in
/// turn, and pass their records in any order: a wait for one record does not end at another one.
struct Point {
  std::mutex mutex;
  std::condition_variable passed_on;
  std::uint64_t recorded = 0;                // number of records so far, and of the last one
  std::set<std::uint64_t> ahead;             // the records that no stream has passed yet
  std::chrono::steady_clock::time_point at;  // when the last record was passed
  bool timed = false;

  /// The number of a new record. Call it with the mutex.
  [[nodiscard]] std::uint64_t record() {
    ahead.insert(++recorded);
    return recorded;
  }
  /// Whether the last record has been passed. Call it with the mutex.
  [[nodiscard]] bool passed() const { return !ahead.contains(recorded); }
  void pass(std::uint64_t number, std::chrono::steady_clock::time_point when);
  void wait_for(std::uint64_t number);
};

struct Capture;

/// A GPU, and its error, if it has failed.
struct Gpu {
  std::atomic<cudaError_t> error{cudaSuccess};
  std::size_t bytes_in_use = 0;
  std::set<int> reaches;
};

}  // namespace zeroth::testing::fake_cuda

/// CUDA does not define these types.
struct CUevent_st {
  std::shared_ptr<zeroth::testing::fake_cuda::Point> point;
  int gpu;
  /// The capture that last recorded it, and the nodes before it; null if it was last recorded outside of captures.
  std::shared_ptr<zeroth::testing::fake_cuda::Capture> capture;
  std::set<std::size_t> captured;
};

struct CUstream_st {
  CUstream_st(int on_gpu, int of_priority, unsigned delay_seed);
  ~CUstream_st();  ///< Runs all enqueued work.
  void push(std::function<void()> entry);
  [[nodiscard]] bool idle();
  void drain();

  int const gpu, priority;
  std::thread::id const owner = std::this_thread::get_id();
  std::shared_ptr<zeroth::testing::fake_cuda::Capture> capture;  // guarded by the state's mutex

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, ending_ = false;
  unsigned delays_;
  std::thread worker_;
};

namespace zeroth::testing::fake_cuda {

class State {
 public:
  static State& get();

  // The mutex guards all of these.
  std::mutex mutex;
  Machine machine;
  std::deque<Gpu> gpus;
  struct Block {
    std::size_t bytes;
    int gpu;  // -1: the host
    void* memory;
  };
  std::map<std::uintptr_t, Block> blocks;                        // by address
  std::vector<std::unique_ptr<void, void (*)(void*)>> lost;      // memory freed on a GPU that had failed
  std::map<cudaStream_t, std::shared_ptr<CUstream_st>> streams;  // shared with threads that wait until it is idle
  std::map<int, cudaStream_t> default_streams;                   // by GPU: those of `streams` that nobody created
  std::set<cudaEvent_t> events;
  std::set<std::pair<int, std::string>> loaded;  // kernels, by GPU
  std::map<std::string, std::int64_t> calls;
  std::int64_t timed_events = 0;  // created so far
  std::int64_t time_us = 0;       // if it is simulated
  std::map<std::string, std::pair<int, cudaError_t>> refusals;
  std::optional<std::pair<int, cudaError_t>> work_to_fail;
  std::set<std::shared_ptr<Capture>> captures;  // that have not ended
  std::set<cudaGraph_t> graphs;
  std::set<cudaGraphExec_t> executables;
  std::vector<GraphMade> graphs_made;
  std::optional<std::size_t> edge_to_drop;
  unsigned graph_seed = 1;

  /// Counts a call, and returns its error if it must fail or comes too late: a GPU that failed returns only its error.
  [[nodiscard]] cudaError_t enter(char const* function, int gpu);
  /// The stream itself; for the null handle the default stream of the thread's GPU, if the machine has one.
  [[nodiscard]] cudaStream_t resolve(cudaStream_t stream);
  /// Whether it is the default stream of its GPU.
  [[nodiscard]] bool is_default(cudaStream_t stream) const;
  [[nodiscard]] Block const* find(void const* data, std::size_t bytes) const;
  [[nodiscard]] bool reaches(int gpu, void const* data, std::size_t bytes) const;
  /// The time at which an event is passed.
  [[nodiscard]] std::chrono::steady_clock::time_point pass_event(bool timed);
  /// Whether work that is about to run on `gpu` may run, or fails.
  [[nodiscard]] bool may_run(int gpu);
};

/// Enqueues a kernel on a stream of the current GPU.
[[nodiscard]] cudaError_t launch(cudaStream_t stream, std::string const& kernel, std::function<void()> work);
/// Calls `function` as CUDA may: after those of all other streams, on a thread whose CUDA calls fail meanwhile.
void run_host_function(cudaHostFn_t function, void* data);
/// Sets a thread's last error, and returns it like cudaGetLastError().
cudaError_t answer(cudaError_t error);
[[nodiscard]] int& current_gpu();
cudaError_t take_last_error();

}  // namespace zeroth::testing::fake_cuda
