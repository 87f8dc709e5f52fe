// SPDX-License-Identifier: Apache-2.0
#include "engine/entry.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "comm/finally.hpp"

namespace zeroth::engine {

namespace {
[[noreturn]] void refuse(char const* call) {
  throw ContractError{fmt::format(
      "{} while a call of another thread on this engine was under way: its calls, passes and guards belong to one "
      "thread at a time",
      call)};
}
}  // namespace

Entry::Entry(Doorway& doorway, char const* call) : doorway_{&doorway} {
  bool const free = try_enter();
  act_as_rank();
  if (!free) {
    comm::Finally const restore{[this] { speak_as_before(); }};  // there is no destructor for what was not built
    refuse(call);
  }
}

Entry::Entry(Doorway& doorway) noexcept : doorway_{&doorway} {
  while (!try_enter()) {
    refused_ = true;
    std::this_thread::yield();
  }
  act_as_rank();
}

Entry::~Entry() {
  speak_as_before();
  if (entered_) {
    doorway_->inside_.store(std::thread::id{}, std::memory_order_release);
  }
}

void Entry::expect_alone(char const* call) const {
  if (refused_) {
    refuse(call);
  }
}

/// False if another thread is inside.
bool Entry::try_enter() noexcept {
  if (!doorway_->watched_) {
    return true;
  }
  auto const self = std::this_thread::get_id();
  std::thread::id expected{};
  if (doorway_->inside_.compare_exchange_strong(expected, self, std::memory_order_acquire)) {
    entered_ = true;
    return true;
  }
  return expected == self;
}

void Entry::act_as_rank() {
  if (std::this_thread::get_id() != doorway_->home_) {
    before_ = std::exchange(this_rank(), doorway_->rank_);
    doorway_->device_->make_current();
  }
}

void Entry::speak_as_before() noexcept {
  if (before_) {
    this_rank() = *std::exchange(before_, std::nullopt);
  }
}

bool in_unwinding(std::thread::id thread, int exceptions) noexcept {
  return std::uncaught_exceptions() > (std::this_thread::get_id() == thread ? exceptions : 0);
}

}  // namespace zeroth::engine
