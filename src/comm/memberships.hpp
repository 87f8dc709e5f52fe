// SPDX-License-Identifier: Apache-2.0
/// Which groups of a job its ranks are in, so that who tells of a lost rank can say whom it leaves waiting.
#pragma once
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/group.hpp"

namespace zeroth::comm {

/// What one rank knows by the splits that it took part in. Any thread may call anything.
class Memberships {
 public:
  /// The split of `whole` that `requests` [whole.world()] asked for made this rank's communicator `part`. Passed over
  /// where that has no ranks.
  void add(Group const& whole, std::span<SplitRequest const> requests, Group const& part);
  /// This rank has ended communicator `part`, or never had it.
  void remove(std::uint64_t part);
  /// " (of 'gather-group': ranks 2 and 3; 'reduce-replicas': ranks 1 and 3)", to be put behind a rank's name; empty
  /// where it shares no communicator that others of the job are not in.
  [[nodiscard]] std::string describe(int job_rank) const;

 private:
  struct Split {
    std::uint64_t part;
    std::string name;
    std::vector<int> colors;  ///< [job's world]; negative: in none.
  };
  mutable std::mutex mutex_;
  std::vector<Split> splits_;
};

}  // namespace zeroth::comm
