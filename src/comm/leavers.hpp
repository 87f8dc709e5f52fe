// SPDX-License-Identifier: Apache-2.0
/// Who has ended which communicator.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace zeroth::comm {

/// A rank that has ended a communicator after transaction `last`.
struct Leaver {
  int rank = 0;  ///< In the world.
  std::uint64_t last = 0;
};

/// Kept from the first rank's word that it left a communicator until the last one's. A word may come before this rank
/// has the communicator, and after it has ended it.
class Leavers {
 public:
  void add(std::uint64_t communicator, Leaver const& leaver) {
    auto& group = groups_[communicator];
    group.leavers.push_back(leaver);
    forget_if_complete(communicator);
  }
  /// This rank has ended a communicator that `others` more ranks have or had.
  void leave(std::uint64_t communicator, std::size_t others) {
    auto& group = groups_[communicator];
    group.left = true;
    group.others = others;
    forget_if_complete(communicator);
  }
  [[nodiscard]] std::vector<Leaver> of(std::uint64_t communicator) const {
    auto const group = groups_.find(communicator);
    return group == groups_.end() ? std::vector<Leaver>{} : group->second.leavers;
  }
  /// Of how many communicators anything is kept.
  [[nodiscard]] std::size_t communicators() const noexcept { return groups_.size(); }

 private:
  struct Group {
    std::vector<Leaver> leavers;
    bool left = false;  ///< By this rank.
    std::size_t others = 0;
  };
  void forget_if_complete(std::uint64_t communicator) {
    auto const group = groups_.find(communicator);
    if (group->second.left && group->second.leavers.size() == group->second.others) {
      groups_.erase(group);
    }
  }
  std::map<std::uint64_t, Group> groups_;
};

}  // namespace zeroth::comm
