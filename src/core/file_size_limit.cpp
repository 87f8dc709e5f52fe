// SPDX-License-Identifier: Apache-2.0
#include "core/file_size_limit.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <ctime>
#include <system_error>

namespace zeroth {
namespace {

sigset_t the_signal() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

}  // namespace

NoFileSizeSignal::NoFileSizeSignal() noexcept {
  sigset_t pending;
  was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
  auto const set = the_signal();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

NoFileSizeSignal::~NoFileSizeSignal() {
  int const error = errno;
  if (!was_pending_) {
    auto const set = the_signal();
    timespec const at_once{};
    while (sigtimedwait(&set, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

std::string file_error_text(int error) {
  auto const text = std::generic_category().message(error);
  struct rlimit limit {};
  if (error != EFBIG || ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return text;
  }
  return fmt::format("{} (files of this process may have {} bytes: ulimit -f)", text, limit.rlim_cur);
}

}  // namespace zeroth
