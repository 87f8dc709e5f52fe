// SPDX-License-Identifier: Apache-2.0
#include "support/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace zeroth::testing {
namespace {

using Clock = std::chrono::steady_clock;

/// Long, since it only serves to distinguish a hanging program from a slow one.
constexpr std::chrono::seconds patience{240};

[[noreturn]] void throw_errno(char const* call) { throw std::system_error{errno, std::generic_category(), call}; }

struct Ends {
  int ours = -1, theirs = -1;
};

Ends make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw_errno("pipe2");
  }
  return {ends[0], ends[1]};
}

Ends make_terminal(int columns) {
  Ends ends{.ours = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
  std::array<char, 64> name{};
  if (ends.ours < 0 || ::grantpt(ends.ours) != 0 || ::unlockpt(ends.ours) != 0 ||
      ::ptsname_r(ends.ours, name.data(), name.size()) != 0) {
    throw_errno("a terminal");
  }
  ends.theirs = ::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ends.theirs < 0) {
    throw_errno("open of a terminal");
  }
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  if (::ioctl(ends.theirs, TIOCSWINSZ, &size) != 0) {
    throw_errno("the size of a terminal");
  }
  return ends;
}

[[noreturn]] void become(Child::Options const& options, int output) {
  if (options.on_terminal) {
    ::setsid();
    ::ioctl(output, TIOCSCTTY, 0);
    ::dup2(output, STDIN_FILENO);
  }
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  // The caller of the tests may have ignored or blocked the signals that they test.
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  for (auto const& [name, value] : options.environment) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<char*> arguments;
  for (auto const& argument : options.command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  if (::chdir(options.folder.c_str()) == 0) {
    ::execvp(arguments[0], arguments.data());
  }
  ::_exit(127);
}

}  // namespace

Child::Child(Options const& options) {
  auto const ends = options.on_terminal ? make_terminal(options.columns) : make_pipe();
  pid_ = ::fork();
  if (pid_ < 0) {
    throw_errno("fork");
  }
  if (pid_ == 0) {
    become(options, ends.theirs);
  }
  ::close(ends.theirs);
  pipe_ = ends.ours;
}

Child::~Child() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(pipe_);
}

bool Child::read_some(Clock::time_point deadline) {
  auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd ready{pipe_, POLLIN, 0};
  if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left)) <= 0) {
    return false;
  }
  std::array<char, 4096> buffer{};
  auto const bytes = ::read(pipe_, buffer.data(), buffer.size());
  if (bytes <= 0) {
    return false;
  }
  output_.append(buffer.data(), static_cast<std::size_t>(bytes));
  return true;
}

bool Child::wait_for(std::string const& text, int times) {
  auto const deadline = Clock::now() + patience;
  while (count_of(output_, text) < times) {
    if (!read_some(deadline)) {
      return false;
    }
  }
  return true;
}

void Child::send(int signal) const {
  if (::kill(pid_, signal) != 0) {
    throw_errno("kill");
  }
}

void Child::press_ctrl_c() const {
  char const ctrl_c = '\x03';
  if (::write(pipe_, &ctrl_c, 1) != 1) {
    throw_errno("write to a terminal");
  }
}

Ending Child::wait() {
  auto const deadline = Clock::now() + patience;
  while (read_some(deadline)) {
  }
  Ending ending;
  ending.in_time = Clock::now() < deadline;
  if (!ending.in_time) {
    ::kill(pid_, SIGKILL);
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFEXITED(status)) {
    ending.status = WEXITSTATUS(status);
  } else {
    ending.signal = WTERMSIG(status);
  }
  return ending;
}

std::vector<std::string> words_of(std::string const& text) {
  std::vector<std::string> words;
  std::istringstream rest{text};
  for (std::string word; std::getline(rest, word, ' ');) {
    words.push_back(word);
  }
  return words;
}

int count_of(std::string const& text, std::string const& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

}  // namespace zeroth::testing
