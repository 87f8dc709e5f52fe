// SPDX-License-Identifier: Apache-2.0
/// Calls of the CUDA runtime, and what becomes of those that fail.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "device/failure.hpp"

namespace zeroth::device {

/// "found in cudaEventQuery on cuda:3: an illegal memory access was encountered (cudaErrorIllegalAddress)". Found,
/// since any call may return the error of work that was enqueued earlier, by the caller's program too.
[[nodiscard]] std::string describe_call(char const* call, int ordinal, cudaError_t error);

/// "Not ready" is an answer and no error. CUDA keeps it as the last one all the same, where it would be taken for that
/// of a later launch.
[[nodiscard]] cudaError_t forget_not_ready(cudaError_t answer) noexcept;

/// What the parts of one CUDA device share. It belongs to the device's thread.
class CudaContext {
 public:
  explicit CudaContext(int ordinal) : ordinal_{ordinal} {}
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  [[nodiscard]] Failure& failure() noexcept { return *failure_; }
  [[nodiscard]] std::shared_ptr<Failure> const& shared_failure() const noexcept { return failure_; }
  /// If `error` is one: fails the device with a SystemError, unless it has failed before, and throws what it failed
  /// with first.
  void expect(cudaError_t error, char const* call);
  /// Fails the device, if `error` is one: for what must not throw.
  void note(cudaError_t error, char const* call) noexcept;
  /// Asks `query`, which is named `call`, until it says something else than "not ready"; then as expect(). Never blocks
  /// in the driver, where nobody could end the wait.
  template <class Query>
  void await(Query const& query, char const* call) {
    cudaError_t answer = forget_not_ready(query());
    for (int asked = 0; answer == cudaErrorNotReady; ++asked) {
      pause(asked);
      answer = forget_not_ready(query());
    }
    expect(answer, call);
  }
  /// Memory of GPU `peer` becomes reachable from this one. Costs something the first time only.
  void reach(int peer);

 private:
  static void pause(int asked);

  int ordinal_;
  std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
  std::uint64_t reached_ = 0;  // bit by GPU
};

}  // namespace zeroth::device
