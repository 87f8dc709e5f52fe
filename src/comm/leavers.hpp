// SPDX-License-Identifier: Apache-2.0
/// Records which ranks have left which communicators.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace zeroth::comm {

/// A rank that has left a communicator after transaction `last`.
struct Leaver {
  int rank = 0;  ///< In the world.
  std::uint64_t last = 0;
};

/// Keeps a communicator's entry from the first rank's notice that it left until the last one's. A notice may precede
/// this rank's communicator, or follow its destruction.
class Leavers {
 public:
  void add(std::uint64_t communicator, Leaver const& leaver) {
    auto& group = groups_[communicator];
    group.leavers.push_back(leaver);
    forget_if_complete(communicator);
  }
  /// This rank has left a communicator that `others` more ranks have or had.
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
  /// The number of communicators with an entry.
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
