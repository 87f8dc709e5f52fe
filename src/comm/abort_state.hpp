// SPDX-License-Identifier: Apache-2.0
/// The premature end of a job.
#pragma once
#include <atomic>
#include <mutex>
#include <optional>
#include <string>

namespace zeroth::comm {

/// Shared by all ranks and communicators of one job. Only the first reason is kept. Any thread may call any function.
class AbortState {
 public:
  void abort(std::string const& reason) noexcept;
  [[nodiscard]] bool aborted() const noexcept { return aborted_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string reason() const;
  /// The reason, or nullopt while the job runs.
  [[nodiscard]] std::optional<std::string> failure() const {
    return aborted() ? std::optional{reason()} : std::nullopt;
  }

 private:
  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;
  std::string reason_;
};

}  // namespace zeroth::comm
