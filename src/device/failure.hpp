// SPDX-License-Identifier: Apache-2.0
/// Stops a failed device from running further work.
#pragma once
#include <atomic>
#include <exception>
#include <mutex>

namespace zeroth::device {

/// The first error on any stream of one device. From then on all its streams skip their work: they use each other's
/// results, and the output of a failed task must not be used.
class Failure {
 public:
  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  void set(std::exception_ptr error) noexcept;
  /// Fails with the error of `other` if that has failed, because this device has waited for it.
  void adopt(Failure const& other) noexcept;
  void rethrow() const;

 private:
  std::mutex mutex_;
  std::exception_ptr error_;  // written once, before failed_
  std::atomic<bool> failed_{false};
};

}  // namespace zeroth::device
