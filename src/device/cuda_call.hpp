// SPDX-License-Identifier: Apache-2.0
/// Calls of the CUDA runtime, and their error handling.
#pragma once
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "device/failure.hpp"

namespace zeroth::device {

/// "found in cudaEventQuery on cuda:3: an illegal memory access was encountered (cudaErrorIllegalAddress)". It says
/// "found", since any call may return the error of earlier work, also of the caller's program.
[[nodiscard]] std::string describe_call(char const* call, int ordinal, cudaError_t error);

/// Clears "not ready", which is an answer and not an error. CUDA keeps it as the last error, where it would be mistaken
/// for that of a later launch.
[[nodiscard]] cudaError_t forget_not_ready(cudaError_t answer) noexcept;

/// State that the parts of one CUDA device share. Used on the device's thread.
class CudaContext {
 public:
  explicit CudaContext(int ordinal) : ordinal_{ordinal} {}
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  [[nodiscard]] Failure& failure() noexcept { return *failure_; }
  [[nodiscard]] std::shared_ptr<Failure> const& shared_failure() const noexcept { return failure_; }
  /// If `error` is an error, fails the device with a SystemError, unless it has failed before, and throws the device's
  /// first error.
  void expect(cudaError_t error, char const* call);
  /// Fails the device if `error` is an error. For code that must not throw.
  void note(cudaError_t error, char const* call) noexcept;
  /// Polls `query`, named `call` in messages, until its answer is not "not ready", then calls expect(). Never blocks in
  /// the driver, where nothing could end the wait.
  template <class Query>
  void await(Query const& query, char const* call) {
    cudaError_t answer = forget_not_ready(query());
    for (int asked = 0; answer == cudaErrorNotReady; ++asked) {
      pause(asked);
      answer = forget_not_ready(query());
    }
    expect(answer, call);
  }
  /// The number of the capture under way, from 1; 0 if work runs as it is enqueued. Any thread.
  [[nodiscard]] std::uint64_t capture() const noexcept { return capture_.load(std::memory_order_relaxed); }
  void set_capture(std::uint64_t number) noexcept { capture_.store(number, std::memory_order_relaxed); }
  /// The event that is recorded after each launch of a graph; null before the first graph. Not owned.
  [[nodiscard]] cudaEvent_t launched() const noexcept { return launched_; }
  void set_launched(cudaEvent_t event) noexcept { launched_ = event; }
  /// Throws ContractError while work is captured, when nothing may wait on the host.
  void expect_no_capture() const;
  /// Makes memory of GPU `peer` accessible from this one. Only the first call is expensive.
  void reach(int peer);

 private:
  static void pause(int asked);

  int ordinal_;
  std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
  std::uint64_t reached_ = 0;  // one bit per GPU
  std::atomic<std::uint64_t> capture_{0};
  cudaEvent_t launched_ = nullptr;
};

}  // namespace zeroth::device
