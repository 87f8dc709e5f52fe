// SPDX-License-Identifier: Apache-2.0
/// Kills process groups when the process that made them ends before them.
#pragma once
#include <sys/types.h>

namespace zeroth::tools {

/// A small child process that detects the end of this one, whatever the cause, and then kills the registered groups.
/// For programs with one thread.
class GroupGuard {
 public:
  /// Throws SystemError.
  GroupGuard();
  /// Kills the groups that are still registered.
  ~GroupGuard();
  GroupGuard(GroupGuard const&) = delete;
  GroupGuard& operator=(GroupGuard const&) = delete;

  /// May be called in a forked process.
  void add(pid_t group) noexcept { tell(group); }
  void remove(pid_t group) noexcept { tell(-group); }  ///< Call when the group has no process left.

 private:
  void tell(pid_t word) noexcept;

  int to_guard_ = -1;
  pid_t guard_ = 0;
};

}  // namespace zeroth::tools
