// SPDX-License-Identifier: Apache-2.0
/// The groups that a job's ranks are in, so that a message about a lost rank can name the communicators that wait for
/// it.
#pragma once
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/group.hpp"

namespace zeroth::comm {

/// One rank's knowledge from the splits that it took part in. Any thread may call any function.
class Memberships {
 public:
  /// Records that a split of `whole` with `requests` [whole.world()] made this rank's communicator `part`. Ignored if
  /// `part` has no ranks.
  void add(Group const& whole, std::span<SplitRequest const> requests, Group const& part);
  /// This rank has ended communicator `part`, or never had it.
  void remove(std::uint64_t part);
  /// " (of 'gather-group': ranks 2 and 3; 'reduce-replicas': ranks 1 and 3)", to follow a rank's name. Empty if all
  /// communicators shared with it have all ranks of the job.
  [[nodiscard]] std::string describe(int job_rank) const;

 private:
  struct Split {
    std::uint64_t part;
    std::string name;
    std::vector<int> colors;  ///< [job's world]; negative: in no part.
  };
  mutable std::mutex mutex_;
  std::vector<Split> splits_;
};

}  // namespace zeroth::comm
