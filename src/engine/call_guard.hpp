// SPDX-License-Identifier: Apache-2.0
/// Calls on an engine come from any thread, one at a time, speak as the engine's rank, and reach its device.
#pragma once
#include <atomic>
#include <optional>
#include <thread>

#include "zeroth/core/error.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::engine {

/// What all calls on one engine pass through.
class ThreadCheck {
 public:
  /// Of the calling thread, whose rank is the engine's. `watched`: two threads at the same time are told.
  ThreadCheck(bool watched, device::Device& device) : watched_{watched}, device_{&device} {}

 private:
  friend class CallGuard;
  bool watched_;
  device::Device* device_;
  std::thread::id home_ = std::this_thread::get_id();
  RankContext rank_ = this_rank();
  std::atomic<std::thread::id> inside_{};
};

/// A call, from its begin to its end; calls within it are part of it.
class CallGuard {
 public:
  /// Throws ContractError if another thread's call is under way.
  CallGuard(ThreadCheck& thread_check, char const* call);
  /// Of a call that cannot throw: waits until another thread's is over, which expect_alone() then tells.
  explicit CallGuard(ThreadCheck& thread_check) noexcept;
  CallGuard(CallGuard const&) = delete;
  CallGuard& operator=(CallGuard const&) = delete;
  ~CallGuard();
  /// Throws ContractError if it had to wait.
  void expect_alone(char const* call) const;

 private:
  [[nodiscard]] bool try_enter() noexcept;
  void act_as_rank();
  void speak_as_before() noexcept;

  ThreadCheck* thread_check_;
  bool entered_ = false, refused_ = false;
  std::optional<RankContext> before_;  // of another thread
};

/// Does what ends now on this thread end by an exception? It began on `thread`, where `exceptions` were in flight then.
[[nodiscard]] bool in_unwinding(std::thread::id thread, int exceptions) noexcept;

}  // namespace zeroth::engine
