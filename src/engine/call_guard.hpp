// SPDX-License-Identifier: Apache-2.0
/// Any thread may call an engine, one at a time: a call logs as the engine's rank and uses its device.
#pragma once
#include <atomic>
#include <optional>
#include <thread>

#include "zeroth/core/error.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::engine {

/// The check that all calls on one engine go through.
class ThreadCheck {
 public:
  /// Takes the rank of the calling thread as the engine's. `watched`: concurrent calls from two threads are detected.
  ThreadCheck(bool watched, device::Device& device) : watched_{watched}, device_{&device} {}

 private:
  friend class CallGuard;
  bool watched_;
  device::Device* device_;
  std::thread::id home_ = std::this_thread::get_id();
  RankContext rank_ = this_rank();
  std::atomic<std::thread::id> inside_{};
};

/// An RAII guard around one call; calls nested in it belong to it.
class CallGuard {
 public:
  /// Throws ContractError if a call of another thread is running.
  CallGuard(ThreadCheck& thread_check, char const* call);
  /// For a call that cannot throw: waits until another thread's call has returned. expect_alone() then reports it.
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
  std::optional<RankContext> before_;  // of the calling thread, if it is not the engine's
};

/// Whether an object is being destroyed by an exception on this thread. It was made on `thread`, where `exceptions`
/// were in flight at the time.
[[nodiscard]] bool in_unwinding(std::thread::id thread, int exceptions) noexcept;

}  // namespace zeroth::engine
