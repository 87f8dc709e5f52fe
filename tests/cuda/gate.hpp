// SPDX-License-Identifier: Apache-2.0
/// A point that a stream of a GPU does not pass until the host opens it.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>

#include "cuda/gpus.hpp"
#include "cuda/work.hpp"

namespace zeroth::testing {

/// Must outlive the work of the streams that it blocks. On a GPU it is a kernel that polls, since a host function would
/// also block those of other streams. While it is closed, launch only kernels that were launched before: CUDA may wait
/// for the GPU before it loads a kernel.
class Gate {
 public:
  explicit Gate(device::Device& device)
      : memory_{device.allocate_host(sizeof(Flag))}, open_{new (memory_->data()) Flag{0}} {}
  Gate(Gate const&) = delete;
  Gate& operator=(Gate const&) = delete;
  ~Gate() { open(); }

  void enqueue_on(device::Stream& stream) {
#ifdef ZEROTH_ON_GPU
    auto const error = enqueue_gate(device::as_cuda(stream).get(), reinterpret_cast<int const*>(open_));
    if (error != cudaSuccess) {
      throw std::runtime_error{cudaGetErrorString(error)};
    }
#else
    post_on_gpu(stream, [flag = open_] {
      while (*flag == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
    });
#endif
  }
  void open() { *open_ = 1; }

 private:
  using Flag = std::atomic<int>;
  static_assert(sizeof(Flag) == sizeof(int));

  std::unique_ptr<device::Memory> memory_;  // host memory that the GPU reads
  Flag* open_;
};

}  // namespace zeroth::testing
