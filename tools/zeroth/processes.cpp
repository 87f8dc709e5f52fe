// SPDX-License-Identifier: Apache-2.0
#include "processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include <zeroth/core/error.hpp>

namespace zeroth::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array awaited_numbers{SIGTERM, SIGINT, SIGUSR1, SIGCHLD};

std::string error_text(int error) { return std::generic_category().message(error); }

/// Pointers to the words with a final null, as exec() takes them.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (auto& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

/// This process's environment, in which `added` replaces variables of the same names.
std::vector<std::string> environment_with(std::map<std::string, std::string> const& added) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    std::string const text = *variable;
    if (!added.contains(text.substr(0, text.find('=')))) {
      all.push_back(text);
    }
  }
  for (auto const& [name, value] : added) {
    all.push_back(fmt::format("{}={}", name, value));
  }
  return all;
}

/// Runs in the forked child: makes only async-signal-safe calls and allocates no memory.
[[noreturn]] void become(char** command, char** environment, pid_t parent, AwaitedSignals const& signals,
                         GroupGuard& guard, int report_to, int output) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {  // the parent was gone before prctl()
    ::_exit(EXIT_FAILURE);
  }
  ::setpgid(0, 0);
  guard.add(::getpid());  // before the program runs: if its parent is killed now, nothing else ends what it starts
  int const nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  if (nothing > STDERR_FILENO) {
    ::close(nothing);
  }
  if (output >= 0) {
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
  }
  ::signal(SIGPIPE, SIG_DFL);  // keep_standard_streams() has changed it
  signals.give_back();
  ::execvpe(command[0], command, environment);
  int const error = errno;
  (void)!::write(report_to, &error, sizeof error);
  ::_exit(EXIT_FAILURE);
}

/// nullopt if exec() succeeded; otherwise its errno.
std::optional<int> read_error(int report) {
  int error = 0;
  ssize_t bytes = 0;
  do {
    bytes = ::read(report, &error, sizeof error);
  } while (bytes < 0 && errno == EINTR);
  return bytes == sizeof error ? std::optional{error} : std::nullopt;
}

/// Opens the file for appending; -1 if there is none.
int open_output(std::filesystem::path const& file) {
  if (file.empty()) {
    return -1;
  }
  constexpr mode_t everybody = 0666;  // minus the umask
  int const output = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, everybody);
  if (output < 0) {
    throw SystemError{fmt::format("{} cannot be opened: {}", file.string(), error_text(errno))};
  }
  return output;
}

void close_output(int output) noexcept {
  if (output >= 0) {
    ::close(output);
  }
}

/// Starts a process and registers its group with the guard.
pid_t start_process(Start const& start, AwaitedSignals const& signals, GroupGuard& guard) {
  auto words = start.command;
  auto variables = environment_with(start.environment);
  auto const command = pointers_to(words);
  auto const environment = pointers_to(variables);
  int const output = open_output(start.output);
  std::array<int, 2> report{};
  if (::pipe2(report.data(), O_CLOEXEC) != 0) {
    auto const why = error_text(errno);
    close_output(output);
    throw SystemError{"pipe2 failed: " + why};
  }
  pid_t const parent = ::getpid();
  pid_t const process = ::fork();
  int const fork_error = errno;
  if (process == 0) {
    become(const_cast<char**>(command.data()), const_cast<char**>(environment.data()), parent, signals, guard,
           report[1], output);
  }
  ::close(report[1]);
  close_output(output);
  auto const error = process < 0 ? std::nullopt : read_error(report[0]);
  ::close(report[0]);
  if (process < 0) {
    throw SystemError{fmt::format("cannot start a process for {}: {}", start.command.front(), error_text(fork_error))};
  }
  if (error) {
    guard.remove(process);
    ::waitpid(process, nullptr, 0);
    throw ConfigError{fmt::format("{} cannot be run: {}", start.command.front(), error_text(*error))};
  }
  return process;
}

}  // namespace

AwaitedSignals::AwaitedSignals() {
  std::signal(SIGCHLD, SIG_DFL);  // if it is ignored, the exit status of children is lost
  ::sigemptyset(&awaited_);
  for (int const number : awaited_numbers) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_IGN) {
      ::sigaddset(&awaited_, number);
    }
  }
  ::sigprocmask(SIG_BLOCK, &awaited_, &before_);
}

AwaitedSignals::~AwaitedSignals() { give_back(); }

void AwaitedSignals::give_back() const noexcept { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

int AwaitedSignals::next(std::optional<Clock::time_point> deadline) const {
  while (true) {
    constexpr std::chrono::nanoseconds longest = std::chrono::hours{1};
    auto const left = deadline ? std::clamp<std::chrono::nanoseconds>(*deadline - Clock::now(), {}, longest) : longest;
    timespec const timeout{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    int const number = ::sigtimedwait(&awaited_, nullptr, &timeout);
    if (number > 0) {
      return number;
    }
    if (deadline && Clock::now() >= *deadline) {
      return 0;
    }
  }
}

Processes::Processes(std::vector<Start> const& starts, AwaitedSignals const& signals) {
  ::sigemptyset(&sent_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of the children become children of this process, which then can wait
                                       // for them
  try {
    for (auto const& start : starts) {
      groups_.push_back({start_process(start, signals, guard_), groups_.size(), start.passes_signals_on});
    }
  } catch (...) {
    end();
    throw;
  }
}

Processes::~Processes() { end(); }

void Processes::end() noexcept {
  kill();
  for (auto const& group : groups_) {
    while (::waitpid(-group.number, nullptr, 0) > 0 || errno == EINTR) {
    }
    guard_.remove(group.number);
  }
  groups_.clear();
}

void Processes::send(int signal) noexcept {
  ::sigaddset(&sent_, signal);
  for (auto const& group : groups_) {
    ::kill(group.passes_signals_on ? group.number : -group.number, signal);
  }
}

void Processes::kill() const noexcept {
  for (auto const& group : groups_) {
    ::kill(-group.number, SIGKILL);
  }
}

void Processes::reap() {
  siginfo_t info{};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    auto const found = std::ranges::find_if(
        groups_, [&](Group const& each) { return each.number == info.si_pid && each.leader_runs; });
    if (found != groups_.end()) {  // otherwise it is an orphan of one of them
      Ended const how = info.si_code == CLD_EXITED ? Ended{.status = info.si_status} : Ended{.signal = info.si_status};
      if (how.signal == 0 || ::sigismember(&sent_, how.signal) == 0) {
        ::kill(-info.si_pid, SIGKILL);
      }
      found->leader_runs = false;
      ended_.emplace_back(found->place, how);
    }
    ::waitpid(info.si_pid, nullptr, 0);
    forget_empty_groups();  // before waiting for the next one: a group keeps its number until its last process was
                            // waited for
    info = {};
  }
}

void Processes::forget_empty_groups() {
  std::erase_if(groups_, [this](Group const& each) {
    bool const is_empty = !each.leader_runs && ::kill(-each.number, 0) != 0 && errno == ESRCH;
    if (is_empty) {
      guard_.remove(each.number);
    }
    return is_empty;
  });
}

}  // namespace zeroth::tools
