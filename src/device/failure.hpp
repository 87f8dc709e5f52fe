// SPDX-License-Identifier: Apache-2.0
/// What keeps a failed device from working on.
#pragma once
#include <atomic>
#include <exception>
#include <mutex>

namespace zeroth::device {

/// The first thing that went wrong on any stream of one device. From then on all its streams pass over their work:
/// they work on each other's results, and what a failed task left behind must not be used.
class Failure {
 public:
  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  void set(std::exception_ptr error) noexcept;
  /// Fails as `other` did, if it did: this device waited for a point of that one.
  void adopt(Failure const& other) noexcept;
  void rethrow() const;

 private:
  std::mutex mutex_;
  std::exception_ptr error_;  // written once, before failed_
  std::atomic<bool> failed_{false};
};

}  // namespace zeroth::device
