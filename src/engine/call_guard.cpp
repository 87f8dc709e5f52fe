// SPDX-License-Identifier: Apache-2.0
#include "engine/call_guard.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "comm/finally.hpp"

namespace zeroth::engine {

namespace {
[[noreturn]] void refuse(char const* call) {
  throw ContractError{
      fmt::format("{} while another thread is in a call on this engine: use an engine, its passes and its guards from "
                  "one thread at a time",
                  call)};
}
}  // namespace

CallGuard::CallGuard(ThreadCheck& thread_check, char const* call) : thread_check_{&thread_check} {
  bool const free = try_enter();
  act_as_rank();
  if (!free) {
    comm::Finally const restore{[this] { speak_as_before(); }};  // a constructor that throws runs no destructor
    refuse(call);
  }
}

CallGuard::CallGuard(ThreadCheck& thread_check) noexcept : thread_check_{&thread_check} {
  while (!try_enter()) {
    refused_ = true;
    std::this_thread::yield();
  }
  act_as_rank();
}

CallGuard::~CallGuard() {
  speak_as_before();
  if (entered_) {
    thread_check_->inside_.store(std::thread::id{}, std::memory_order_release);
  }
}

void CallGuard::expect_alone(char const* call) const {
  if (refused_) {
    refuse(call);
  }
}

/// Returns false if another thread is inside.
bool CallGuard::try_enter() noexcept {
  if (!thread_check_->watched_) {
    return true;
  }
  auto const self = std::this_thread::get_id();
  std::thread::id expected{};
  if (thread_check_->inside_.compare_exchange_strong(expected, self, std::memory_order_acquire)) {
    entered_ = true;
    return true;
  }
  return expected == self;
}

void CallGuard::act_as_rank() {
  if (std::this_thread::get_id() != thread_check_->home_) {
    before_ = std::exchange(this_rank(), thread_check_->rank_);
    thread_check_->device_->make_current();
  }
}

void CallGuard::speak_as_before() noexcept {
  if (before_) {
    this_rank() = *std::exchange(before_, std::nullopt);
  }
}

bool in_unwinding(std::thread::id thread, int exceptions) noexcept {
  return std::uncaught_exceptions() > (std::this_thread::get_id() == thread ? exceptions : 0);
}

}  // namespace zeroth::engine
