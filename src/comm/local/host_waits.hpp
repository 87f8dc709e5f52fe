// SPDX-License-Identifier: Apache-2.0
/// Which ranks' own threads wait at which entrance: ranks that wait for each other in two places wait forever.
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "comm/transaction.hpp"

namespace zeroth::comm {

class LocalGroup;

/// Of all ranks of a job. Streams of the CPU have threads of their own and are not in here. Any thread may call
/// anything.
class HostWaits {
 public:
  struct Wait {
    LocalGroup* group = nullptr;  ///< Null: it waits at none.
    std::uint64_t entry = 0;
    Transaction const* transaction = nullptr;
  };
  explicit HostWaits(int world) : waits_(static_cast<std::size_t>(world)) {}
  void set(int job_rank, Wait const& wait) noexcept {
    std::lock_guard const lock{mutex_};
    waits_[static_cast<std::size_t>(job_rank)] = wait;
  }
  /// Calls `look(waits)`, by rank of the job. What they refer to lives at least until it returns.
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
