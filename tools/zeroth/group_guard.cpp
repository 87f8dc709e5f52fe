// SPDX-License-Identifier: Apache-2.0
#include "group_guard.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <set>
#include <system_error>

#include <zeroth/core/error.hpp>

namespace zeroth::tools {
namespace {

/// Runs until the other end of the pipe is closed.
[[noreturn]] void guard(int words) {
  ::setsid();  // protects it from signals to this process's group
  ::prctl(PR_SET_NAME, "zeroth guard");
  std::set<pid_t> groups;
  pid_t word = 0;
  ssize_t bytes = 0;
  while ((bytes = ::read(words, &word, sizeof word)) == sizeof word || (bytes < 0 && errno == EINTR)) {
    if (bytes > 0 && word > 0) {
      groups.insert(word);
    } else if (bytes > 0) {
      groups.erase(-word);
    }
  }
  for (pid_t const group : groups) {
    ::kill(-group, SIGKILL);
  }
  ::_exit(EXIT_SUCCESS);
}

}  // namespace

GroupGuard::GroupGuard() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw SystemError{"pipe2 failed: " + std::generic_category().message(errno)};
  }
  guard_ = ::fork();
  int const error = errno;
  if (guard_ == 0) {
    ::close(ends[1]);
    guard(ends[0]);
  }
  ::close(ends[0]);
  to_guard_ = ends[1];
  if (guard_ < 0) {
    ::close(to_guard_);
    throw SystemError{"cannot start a process that guards the others: " + std::generic_category().message(error)};
  }
}

GroupGuard::~GroupGuard() {
  ::close(to_guard_);
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void GroupGuard::tell(pid_t word) noexcept {
  while (::write(to_guard_, &word, sizeof word) < 0 && errno == EINTR) {
  }
}

}  // namespace zeroth::tools
