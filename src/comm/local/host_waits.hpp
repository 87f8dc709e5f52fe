// SPDX-License-Identifier: Apache-2.0
/// Deadlock detection: records which rank's own thread waits at the entrance of which group.
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "comm/transaction.hpp"

namespace zeroth::comm {

class LocalGroup;

/// Covers all ranks of a job, but not streams of the CPU, which have their own threads. Any thread may call any
/// function.
class HostWaits {
 public:
  struct Wait {
    LocalGroup* group = nullptr;  ///< Null: it does not wait.
    std::uint64_t entry = 0;
    Transaction const* transaction = nullptr;
  };
  explicit HostWaits(int world) : waits_(static_cast<std::size_t>(world)) {}
  void set(int job_rank, Wait const& wait) noexcept {
    std::lock_guard const lock{mutex_};
    waits_[static_cast<std::size_t>(job_rank)] = wait;
  }
  /// Calls `look(waits)`, indexed by rank of the job. The objects that they refer to live at least until it returns.
  template <class Look>
  auto look(Look const& look) const {
    std::lock_guard const lock{mutex_};
    return look(waits_);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Wait> waits_;
};

}  // namespace zeroth::comm
