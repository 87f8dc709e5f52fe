// SPDX-License-Identifier: Apache-2.0
#include "device/failure.hpp"

#include <utility>

namespace zeroth::device {

void Failure::set(std::exception_ptr error) noexcept {
  std::lock_guard const lock{mutex_};
  if (!failed()) {
    error_ = std::move(error);
    failed_.store(true, std::memory_order_release);
  }
}

void Failure::adopt(Failure const& other) noexcept {
  if (&other != this && other.failed()) {
    set(other.error_);
  }
}

void Failure::rethrow() const {
  if (failed()) {
    std::rethrow_exception(error_);
  }
}

}  // namespace zeroth::device
