// SPDX-License-Identifier: Apache-2.0
/// The end of a job before its time.
#pragma once
#include <atomic>
#include <mutex>
#include <optional>
#include <string>

namespace zeroth::comm {

/// Shared by all ranks and communicators of one job. The first reason counts. Any thread may call anything.
class AbortState {
 public:
  void abort(std::string const& reason) noexcept;
  [[nodiscard]] bool aborted() const noexcept { return aborted_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string reason() const;
  /// The reason, once there is one.
  [[nodiscard]] std::optional<std::string> failure() const {
    return aborted() ? std::optional{reason()} : std::nullopt;
  }

 private:
  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;
  std::string reason_;
};

}  // namespace zeroth::comm
