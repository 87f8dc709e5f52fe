// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_call.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <thread>

#include "zeroth/core/error.hpp"

namespace zeroth::device {

std::string describe_call(char const* call, int ordinal, cudaError_t error) {
  return fmt::format("found in {} on cuda:{}: {} ({})", call, ordinal, cudaGetErrorString(error),
                     cudaGetErrorName(error));
}

cudaError_t forget_not_ready(cudaError_t answer) noexcept {
  if (answer == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
  }
  return answer;
}

void CudaContext::expect(cudaError_t error, char const* call) {
  if (error != cudaSuccess) [[unlikely]] {
    note(error, call);
    failure_->rethrow();
  }
}

void CudaContext::note(cudaError_t error, char const* call) noexcept {
  if (error != cudaSuccess) [[unlikely]] {
    static_cast<void>(cudaGetLastError());
    try {
      failure_->set(std::make_exception_ptr(SystemError{describe_call(call, ordinal_, error)}));
    } catch (...) {
      failure_->set(std::current_exception());
    }
  }
}

void CudaContext::expect_no_capture() const {
  ZEROTH_EXPECTS(
      capture() == 0,
      fmt::format("a call waits for work of cuda:{} that is being recorded in a graph: record only calls that "
                  "enqueue work",
                  ordinal_));
}

void CudaContext::pause(int asked) {
  // In short waits, yield to the other threads; in long ones, sleep so that polling costs them nothing.
  constexpr int patience = 100;
  constexpr std::chrono::microseconds interval{20};
  if (asked < patience) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(interval);
  }
}

void CudaContext::reach(int peer) {
  std::uint64_t const bit = std::uint64_t{1} << (static_cast<unsigned>(peer) % 64U);
  if (peer == ordinal_ || (reached_ & bit) != 0) {
    return;
  }
  int can = 0;
  expect(cudaDeviceCanAccessPeer(&can, ordinal_, peer), "cudaDeviceCanAccessPeer");
  if (can == 0) {
    throw SystemError{
        fmt::format("cuda:{} cannot reach the memory of cuda:{}, and ranks that are threads work in each other's "
                    "memory: put them on one GPU, or on GPUs with peer access",
                    ordinal_, peer)};
  }
  auto const enabled = cudaDeviceEnablePeerAccess(peer, 0);
  if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());  // enabled by another rank of this process on the same GPU
  } else {
    expect(enabled, "cudaDeviceEnablePeerAccess");
  }
  reached_ |= bit;
}

}  // namespace zeroth::device
