// SPDX-License-Identifier: Apache-2.0
/// Parameters and gradients of a GPU, for math that the host does: copied there and back on the engine's own stream.
#pragma once
#include <cuda_runtime_api.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/synthetic.hpp"

namespace zeroth::testing {

class CudaAccess final : public Access {
 public:
  static constexpr std::size_t most_bytes = std::size_t{1} << 20U;

  explicit CudaAccess(device::StreamRef stream) : stream_{static_cast<cudaStream_t>(stream.native)} {
    for (auto** const buffer : {&read_, &edited_}) {
      check(cudaHostAlloc(buffer, most_bytes, cudaHostAllocDefault));
    }
  }
  ~CudaAccess() override {
    for (auto* const buffer : {read_, edited_}) {
      static_cast<void>(cudaFreeHost(buffer));
    }
  }
  [[nodiscard]] void const* read(void const* data, std::int64_t bytes) override { return fetch(read_, data, bytes); }
  [[nodiscard]] void* edit(void* data, std::int64_t bytes) override {
    target_ = data;
    bytes_ = static_cast<std::size_t>(bytes);
    return fetch(edited_, data, bytes);
  }
  /// Waits as well: the buffer is used again.
  void commit() override {
    check(cudaMemcpyAsync(target_, edited_, bytes_, cudaMemcpyDefault, stream_));
    wait();
  }
  static std::unique_ptr<Access> make(device::StreamRef stream) { return std::make_unique<CudaAccess>(stream); }

 private:
  static void check(cudaError_t error) {
    if (error != cudaSuccess) {
      throw std::runtime_error{std::string{"the test's own call: "} + cudaGetErrorString(error)};
    }
  }
  void* fetch(void* buffer, void const* data, std::int64_t bytes) const {
    check(cudaMemcpyAsync(buffer, data, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_));
    wait();
    return buffer;
  }
  void wait() const {
    cudaError_t answer = cudaStreamQuery(stream_);
    for (int asked = 0; answer == cudaErrorNotReady; answer = cudaStreamQuery(stream_)) {
      constexpr int patience = 20;  // work that is late takes milliseconds, which other tests can use
      ++asked < patience ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
    check(answer);
  }

  cudaStream_t stream_;
  void *read_ = nullptr, *edited_ = nullptr;
  void* target_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace zeroth::testing
