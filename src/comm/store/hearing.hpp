// SPDX-License-Identifier: Apache-2.0
/// Who hears whom, as far as that is known, and who is to be named where somebody does not.
#pragma once
#include <string>
#include <vector>

namespace zeroth::comm {

/// What rank `from` sends to rank `to`: whether it arrives.
struct Way {
  int from = 0, to = 0;
  bool open = false;
};

/// Who is at fault, and in which direction. Lists are in order.
struct Verdict {
  std::vector<int> ranks;        ///< Of one machine. Empty: no way is closed.
  std::vector<int> not_heard;    ///< Whom they do not hear.
  std::vector<int> not_hearing;  ///< Who do not hear them.
};

/// Two ranks are apart if one of the ways between them is closed; two machines are if all their ranks are apart of
/// which something is known. Named is the machine, or where no two machines are apart the rank, of whose pairs the
/// largest share is apart; among equals the one that is apart from most, then one that has not spoken. Where that
/// leaves two, the fault is between them: named is the one that does not hear the other.
///
/// `hosts` and `has_spoken` are [world]; an empty host is a machine of its own.
[[nodiscard]] Verdict judge(std::vector<Way> const& ways, std::vector<std::string> const& hosts,
                            std::vector<bool> const& has_spoken);

/// "rank 2 on node7", "ranks 2 and 3 on node7": ranks of one machine.
[[nodiscard]] std::string name_ranks(std::vector<int> const& ranks, std::vector<std::string> const& hosts);
/// "rank 2 on node7 hears none of ranks 0, 1 and 3".
[[nodiscard]] std::string describe(Verdict const& verdict, std::vector<std::string> const& hosts);

}  // namespace zeroth::comm
