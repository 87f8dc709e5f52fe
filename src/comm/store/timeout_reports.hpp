// SPDX-License-Identifier: Apache-2.0
/// Reports of ranks whose waits timed out, and the single reason for the job's failure that follows from them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "comm/job_failure.hpp"
#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// A waiting rank's knowledge of another one.
enum class Contact : char {
  none = '-',    ///< Was not asked.
  here = 'h',    ///< Answered, and has reached the awaited transaction.
  late = 'l',    ///< Answered, and has not.
  silent = 's',  ///< Did not answer.
};
using Contacts = std::vector<Contact>;  // [world]

struct TimeoutReport {
  std::string words;
  Contacts contacts;
};

/// "rank 2 on node7", "ranks 2 and 3 on node7", or "ranks 2 and 3" if they are on several machines. `hosts` is [world].
[[nodiscard]] std::string name_ranks(std::vector<int> const& ranks, std::vector<std::string> const& hosts);
/// "ranks 0 and 1 receive nothing from rank 2 on node7".
[[nodiscard]] std::string describe_unheard(std::vector<int> const& by, std::vector<int> const& ranks,
                                           std::vector<std::string> const& hosts);

/// A rank whose wait timed out knows only its own wait, and may wait for a rank that waits itself. So rank 0's store
/// asks all waiting ranks, collects their reports for a short time, and then picks one reason for the job. Used by one
/// thread at a time.
class TimeoutReports {
 public:
  /// `first` is the rank that timed out first; the others were asked.
  TimeoutReports(int world, int first, Clock::time_point deadline)
      : world_{world}, first_{first}, deadline_{deadline} {}

  void add(int rank, TimeoutReport report);
  [[nodiscard]] bool is_empty() const noexcept { return reports_.empty(); }
  [[nodiscard]] bool has(int rank) const { return reports_.contains(rank); }
  /// When the collection ends if not all have reported; max() until one has.
  [[nodiscard]] Clock::time_point deadline() const noexcept {
    return reports_.empty() ? Clock::time_point::max() : deadline_;
  }
  /// The reason for the job. If ranks receive nothing from others, it lists which from which, and quotes one rank that
  /// misses the rank that most receive nothing from. Otherwise it quotes the rank that waits for the fewest ranks that
  /// only wait themselves; the lowest rank wins a tie. At least one report must have been added.
  [[nodiscard]] JobFailure find(std::vector<std::string> const& hosts) const;

 private:
  struct Unheard {
    std::vector<int> by, ranks;
  };
  [[nodiscard]] std::vector<Unheard> unheard() const;
  [[nodiscard]] int waiting_themselves(int rank) const;

  int world_, first_;
  Clock::time_point deadline_;
  std::vector<int> order_;                // in order of arrival
  std::map<int, TimeoutReport> reports_;  // by rank
};

}  // namespace zeroth::comm
