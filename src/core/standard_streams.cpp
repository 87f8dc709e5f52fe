// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/core/standard_streams.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <exception>
#include <mutex>
#include <system_error>

#include "core/open_line.hpp"

namespace zeroth {
namespace {

/// The first error of standard output.
std::atomic<int> output_error{0};

bool is_closed(int descriptor) noexcept { return ::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF; }

}  // namespace

void keep_standard_streams() noexcept {
  std::signal(SIGPIPE, SIG_IGN);
  for (int const descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (is_closed(descriptor)) {
      // open() takes the lowest free number. Writing to a closed output stays an error for the writer.
      (void)!::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

void write_output(std::string_view text) noexcept {
  if (line_is_open.exchange(false)) {
    write_behind_line("\n");
  }
  write_behind_line(text);
}

void write_behind_line(std::string_view text) noexcept {
  while (!text.empty() && output_error.load() == 0) {
    auto const written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // somebody else set O_NONBLOCK
      (void)takes_more(STDOUT_FILENO, Clock::now() + std::chrono::seconds{1});
    } else if (errno != EINTR) {
      output_error = errno;
    }
  }
}

int end_output(std::string_view program, int status) noexcept {
  int const error = output_error.load();
  if (error == 0) {
    return status;
  }
  try {
    write_error(fmt::format("{}: standard output: {}\n", program, std::generic_category().message(error)));
  } catch (std::exception const&) {  // without memory for a message, the status reports it
  }
  return std::max(status, 1);
}

void write_error(std::string_view text) noexcept {
  static std::mutex mutex;
  static bool is_read = true;  // false after one wait has timed out: later calls do not wait again
  std::lock_guard const lock{mutex};
  auto const deadline = Clock::now() + (is_read ? std::chrono::seconds{1} : std::chrono::seconds{0});
  auto const write_all = [deadline](std::string_view rest) {
    while (!rest.empty()) {
      is_read = takes_more(STDERR_FILENO, deadline);
      if (!is_read) {
        return;
      }
      auto const written = ::write(STDERR_FILENO, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
      if (written < 0 && errno != EINTR && errno != EAGAIN) {
        return;
      }
      rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
  };
  if (line_is_open.load() && ::isatty(STDERR_FILENO) == 1 && line_is_open.exchange(false)) {
    write_all("\n");
  }
  write_all(text);
}

void print_error(std::string const& text) noexcept {
  try {
    write_error("zeroth: " + text + "\n");
  } catch (std::exception const&) {  // no memory: write it without the prefix and the newline
    write_error(text);
  }
}

bool takes_more(int descriptor, Clock::time_point deadline) noexcept {
  while (true) {
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{descriptor, POLLOUT, 0};
    int const found = ::poll(&ready, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (found > 0 || (found < 0 && errno != EINTR)) {
      return true;  // also on an error, which the write will report
    }
    if (Clock::now() >= deadline) {
      return false;
    }
  }
}

}  // namespace zeroth
