// SPDX-License-Identifier: Apache-2.0
/// Times work on a stream.
#pragma once
#include <cuda_runtime_api.h>

#include <thread>

#include "gpu/memory.hpp"

namespace gpt::gpu {

class Stopwatch {
 public:
  Stopwatch() = default;
  Stopwatch(Stopwatch const&) = delete;
  Stopwatch& operator=(Stopwatch const&) = delete;
  ~Stopwatch() {
    for (auto* const event : {begin_, end_}) {
      if (event != nullptr) {
        static_cast<void>(cudaEventDestroy(event));
      }
    }
  }

  /// The GPU's time, in microseconds, for the work that `work` enqueues on the stream. Waits for it. Throws SystemError
  /// if CUDA fails.
  template <class Work>
  [[nodiscard]] double us(cudaStream_t stream, Work const& work) {
    for (auto* const event : {&begin_, &end_}) {
      if (*event == nullptr) {
        expect(cudaEventCreateWithFlags(event, cudaEventDefault), "cudaEventCreateWithFlags");
      }
    }
    expect(cudaEventRecord(begin_, stream), "cudaEventRecord");
    work();
    expect(cudaEventRecord(end_, stream), "cudaEventRecord");
    auto passed = cudaEventQuery(end_);
    for (; passed == cudaErrorNotReady; passed = cudaEventQuery(end_)) {
      std::this_thread::yield();
    }
    expect(passed, "cudaEventQuery");
    float milliseconds = 0;
    expect(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e3;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;  // made at the first use
};

}  // namespace gpt::gpu
