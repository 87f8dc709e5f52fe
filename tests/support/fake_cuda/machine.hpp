// SPDX-License-Identifier: Apache-2.0
/// What the functions of the CUDA runtime for tests work on.
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

/// Of streams: the smaller number runs first.
inline constexpr int least_priority = 0, greatest_priority = -5;

/// A point that streams pass. Shared by the handle and by the work that refers to it.
struct Point {
  std::mutex mutex;
  std::condition_variable passed_on;
  std::uint64_t recorded = 0, passed = 0;  // how often
  std::chrono::steady_clock::time_point at;
  bool timed = false;

  void pass(std::uint64_t number, std::chrono::steady_clock::time_point when);
  void wait_for(std::uint64_t number);
};

/// A GPU, and whether it still works.
struct Gpu {
  std::atomic<cudaError_t> error{cudaSuccess};
  std::size_t bytes_in_use = 0;
  std::set<int> reaches;
};

}  // namespace zeroth::testing::fake_cuda

/// CUDA leaves these types open.
struct CUevent_st {
  std::shared_ptr<zeroth::testing::fake_cuda::Point> point;
  int gpu;
};

struct CUstream_st {
  CUstream_st(int on_gpu, int of_priority, unsigned delay_seed);
  ~CUstream_st();  ///< Runs what is enqueued.
  void push(std::function<void()> entry);
  [[nodiscard]] bool idle();
  void drain();

  int const gpu, priority;
  std::thread::id const owner = std::this_thread::get_id();

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

  // All of these under the mutex.
  std::mutex mutex;
  Machine machine;
  std::deque<Gpu> gpus;
  struct Block {
    std::size_t bytes;
    int gpu;  // -1: of the host
    void* memory;
  };
  std::map<std::uintptr_t, Block> blocks;                        // by address
  std::vector<std::unique_ptr<void, void (*)(void*)>> lost;      // what was given back to a GPU that had failed
  std::map<cudaStream_t, std::shared_ptr<CUstream_st>> streams;  // shared with those who wait for it to be idle
  std::map<int, cudaStream_t> default_streams;                   // by GPU: those of `streams` that nobody made
  std::set<cudaEvent_t> events;
  std::set<std::pair<int, std::string>> loaded;  // kernels, by GPU
  std::map<std::string, std::int64_t> calls;
  std::int64_t timed_events = 0;  // made, not those that there are
  std::int64_t time_us = 0;       // where it is made up
  std::map<std::string, std::pair<int, cudaError_t>> refusals;
  std::optional<std::pair<int, cudaError_t>> work_to_fail;

  /// Counts a call, and says whether it is to be refused or comes too late: a GPU that failed answers nothing else.
  [[nodiscard]] cudaError_t enter(char const* function, int gpu);
  /// The stream itself; for the null handle the default stream of the thread's GPU, where the machine has one.
  [[nodiscard]] cudaStream_t resolve(cudaStream_t stream);
  [[nodiscard]] Block const* find(void const* data, std::size_t bytes) const;
  [[nodiscard]] bool reaches(int gpu, void const* data, std::size_t bytes) const;
  /// When an event is passed.
  [[nodiscard]] std::chrono::steady_clock::time_point pass_event(bool timed);
  /// Whether work that is about to run on `gpu` is to run, or has failed.
  [[nodiscard]] bool may_run(int gpu);
};

/// Work that is a kernel, on a stream of the current GPU.
[[nodiscard]] cudaError_t launch(cudaStream_t stream, std::string const& kernel, std::function<void()> work);
/// Calls it as CUDA may: after those of all other streams, on a thread whose calls of CUDA are refused meanwhile.
void run_host_function(cudaHostFn_t function, void* data);
/// The last error of a thread, as cudaGetLastError() returns it.
cudaError_t answer(cudaError_t error);
[[nodiscard]] int& current_gpu();
cudaError_t take_last_error();

}  // namespace zeroth::testing::fake_cuda
