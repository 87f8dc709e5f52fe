// SPDX-License-Identifier: Apache-2.0
/// What ranks say that have waited in vain, and what follows from all of it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "comm/job_failure.hpp"
#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// What a rank that waited has heard of another one.
enum class Contact : char {
  none = '-',    ///< It has not asked it.
  here = 'h',    ///< It answered, and has come to what is waited for.
  late = 'l',    ///< It answered, and has not.
  silent = 's',  ///< No answer, and no question of that one either.
  asking = 'q',  ///< No answer, though that one's own question came.
};
using Contacts = std::vector<Contact>;  // [world]

struct Complaint {
  std::string words;
  Contacts contacts;
};

/// A rank that waited in vain sees its own wait alone, and may wait for one that does the same. So rank 0's store asks
/// all who wait, gives them a little time, and then lets one reason be the job's. One thread at a time.
class Inquest {
 public:
  /// `first` is the rank whose patience has ended; the others were asked.
  Inquest(int world, int first, Clock::time_point deadline) : world_{world}, first_{first}, deadline_{deadline} {}

  void add(int rank, Complaint complaint);
  [[nodiscard]] bool is_empty() const noexcept { return complaints_.empty(); }
  [[nodiscard]] bool has(int rank) const { return complaints_.contains(rank); }
  /// When it is over, if not all have complained before; max() until one has.
  [[nodiscard]] Clock::time_point deadline() const noexcept {
    return complaints_.empty() ? Clock::time_point::max() : deadline_;
  }
  /// Who does not hear whom, in the words of one that misses who is named; where all were answered, in those of who
  /// waits for fewest that only wait themselves, of equals the first rank. Of at least one complaint. See judge();
  /// `hosts` [world].
  [[nodiscard]] JobFailure find(std::vector<std::string> const& hosts) const;

 private:
  [[nodiscard]] int waiting_themselves(int rank) const;

  int world_, first_;
  Clock::time_point deadline_;
  std::vector<int> order_;               // in which ranks came
  std::map<int, Complaint> complaints_;  // by rank
};

}  // namespace zeroth::comm
