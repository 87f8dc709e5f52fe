// SPDX-License-Identifier: Apache-2.0
/// Ends process groups when the process that made them ends before them.
#pragma once
#include <sys/types.h>

namespace zeroth::tools {

/// A small process beside this one, which learns of this one's end, however it comes, and then kills the groups that it
/// was told of. For programs of one thread.
class GroupGuard {
 public:
  /// Throws SystemError.
  GroupGuard();
  /// Kills the groups that are still guarded.
  ~GroupGuard();
  GroupGuard(GroupGuard const&) = delete;
  GroupGuard& operator=(GroupGuard const&) = delete;

  /// May be called in a process that was forked.
  void add(pid_t group) noexcept { tell(group); }
  void remove(pid_t group) noexcept { tell(-group); }  ///< It has no process any more.

 private:
  void tell(pid_t word) noexcept;

  int to_guard_ = -1;
  pid_t guard_ = 0;
};

}  // namespace zeroth::tools
