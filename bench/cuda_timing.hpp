// SPDX-License-Identifier: Apache-2.0
/// Memory and timing of a GPU.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace zeroth::bench {

inline void expect(cudaError_t error, char const* call) {
  if (error != cudaSuccess) {
    throw std::runtime_error{std::string{call} + ": " + cudaGetErrorString(error)};
  }
}

class DeviceMemory {
 public:
  DeviceMemory(std::int64_t bytes, int value) {
    expect(cudaMalloc(&data_, static_cast<std::size_t>(bytes)), "cudaMalloc");
    expect(cudaMemset(data_, value, static_cast<std::size_t>(bytes)), "cudaMemset");
  }
  DeviceMemory(DeviceMemory const&) = delete;
  DeviceMemory& operator=(DeviceMemory const&) = delete;
  ~DeviceMemory() { cudaFree(data_); }
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// Runs work on a stream and returns the device's time for it.
class Stopwatch {
 public:
  Stopwatch() {
    expect(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    expect(cudaEventCreate(&begin_), "cudaEventCreate");
    expect(cudaEventCreate(&end_), "cudaEventCreate");
  }
  Stopwatch(Stopwatch const&) = delete;
  Stopwatch& operator=(Stopwatch const&) = delete;
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  template <class Work>
  [[nodiscard]] double seconds(Work const& work) {
    // Earlier fills or uploads may still be running on the default stream.
    expect(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    expect(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    work(stream_);
    expect(cudaEventRecord(end_, stream_), "cudaEventRecord");
    expect(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    expect(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace zeroth::bench
