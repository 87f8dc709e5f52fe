// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/signals.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "comm/describe.hpp"
#include "comm/launch/process_end.hpp"
#include "core/start_thread.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/core/standard_streams.hpp"

namespace zeroth::comm {
namespace {

constexpr unsigned char end_of_watch = 0;

/// Made once and never closed, so that a late handler cannot write to another file.
struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw SystemError{"pipe2 failed: " + std::generic_category().message(errno)};
    }
    read_end = ends[0];
    write_end = ends[1];
  }
  int read_end = -1, write_end = -1;
};
Pipe& signal_pipe() {
  static Pipe pipe;
  return pipe;
}

// used by the handler
std::atomic<int> write_end{-1};
std::atomic<pid_t> watching{0};
std::atomic<bool> watched{false};

/// A forked child inherits the handler and the pipe, but its signals do not concern the job.
void pass_on(int signal) {
  if (::getpid() != watching.load(std::memory_order_relaxed)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  int const saved = errno;
  auto const number = static_cast<unsigned char>(signal);
  (void)!::write(write_end.load(std::memory_order_relaxed), &number, 1);
  errno = saved;
}

bool is_own_handler(struct sigaction const& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL;
}

struct sigaction install(int signal) {
  struct sigaction before {};
  struct sigaction handler {};
  handler.sa_handler = pass_on;
  handler.sa_flags = SA_RESTART;
  ::sigaction(signal, nullptr, &before);
  if ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_IGN) {
    ::sigaction(signal, &handler, nullptr);
  }
  return before;
}

constexpr unsigned char deadline_came = 255;

/// The next signal from the handler, or `deadline_came` at `deadline`.
unsigned char next_signal(std::optional<Clock::time_point> deadline) {
  constexpr std::chrono::milliseconds longest_poll{60'000};  // poll counts milliseconds in an int
  while (true) {
    auto const left = deadline ? std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()) : longest_poll;
    if (left.count() <= 0) {
      return deadline_came;
    }
    pollfd ready{signal_pipe().read_end, POLLIN, 0};
    unsigned char number = end_of_watch;
    if (::poll(&ready, 1, static_cast<int>(std::min(left, longest_poll).count())) > 0 &&
        ::read(signal_pipe().read_end, &number, 1) == 1) {
      return number;
    }
  }
}

}  // namespace

SignalWatch::SignalWatch(Actions actions) : actions_{std::move(actions)} {
  ZEROTH_EXPECTS(!watched.exchange(true),
                 "launch() was called while another launch() runs in this process; run one after the other");
  try {
    write_end.store(signal_pipe().write_end, std::memory_order_relaxed);
    watching.store(::getpid(), std::memory_order_relaxed);
    thread_ = start_thread("signals", [this] { watch(); });
  } catch (...) {
    watched.store(false);
    throw;
  }
  before_interrupt_ = install(SIGINT);
  before_terminate_ = install(SIGTERM);
  ::sigaction(SIGUSR1, nullptr, &before_user_);
  if (!is_own_handler(before_user_)) {
    install(SIGUSR1);
  }
}

SignalWatch::~SignalWatch() {
  restore();
  (void)!::write(signal_pipe().write_end, &end_of_watch, 1);
  thread_.join();
  watched.store(false);
}

void SignalWatch::restore() noexcept {
  ::sigaction(SIGINT, &before_interrupt_, nullptr);
  ::sigaction(SIGTERM, &before_terminate_, nullptr);
  ::sigaction(SIGUSR1, &before_user_, nullptr);
}

void SignalWatch::watch() {
  while (true) {
    auto const number = next_signal(deadline_);
    if (number == end_of_watch) {
      return;
    }
    if (number == SIGINT) {
      interrupt();
    } else if (number == SIGTERM) {
      terminate();
    } else if (number == SIGUSR1) {
      save_and_end();
    } else {
      deadline_.reset();
      do_as_before(fmt::format("{} did not stop within {} of {}, and is terminated", actions_.who,
                               describe(actions_.grace), asked_by_));
    }
  }
}

void SignalWatch::interrupt() {
  if (std::exchange(interrupted_, true)) {
    print_error(fmt::format("the second SIGINT terminates {}", actions_.who));
    end_process(128 + SIGINT);
  }
  print_error(fmt::format("SIGINT: all ranks stop at the next step; Ctrl-C again terminates {} at once", actions_.who));
  actions_.ask(SIGINT);
}

void SignalWatch::terminate() {
  if (is_own_handler(before_terminate_)) {
    do_as_before("SIGTERM");
  } else if (std::exchange(terminated_, true)) {
    do_as_before(fmt::format("the second SIGTERM terminates {}", actions_.who));
  } else {
    stop_in_time(SIGTERM);
  }
}

void SignalWatch::save_and_end() {
  if (!deadline_) {
    stop_in_time(SIGUSR1);
  }
}

void SignalWatch::stop_in_time(int signal) {
  char const* const name = signal == SIGTERM ? "SIGTERM" : "SIGUSR1";
  if (!deadline_) {
    deadline_ = Clock::now() + actions_.grace;
    asked_by_ = name;
  }
  actions_.ask(signal);  // first: the sender may not wait for long
  auto const grace = describe(actions_.grace);
  auto const when = asked_by_ == name ? "in " + grace : fmt::format("{} after {}", grace, asked_by_);
  print_error(fmt::format("{}: all ranks stop at the next step; {}, or at the {} SIGTERM, {} is terminated", name, when,
                          terminated_ ? "next" : "second", actions_.who));
}

void SignalWatch::do_as_before(std::string const& why) {
  if (!is_own_handler(before_terminate_)) {
    print_error(why);
  }
  actions_.record(why);
  flush_output();
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGTERM);
  ::pthread_sigmask(SIG_UNBLOCK, &both, nullptr);  // the thread may have started with it blocked
  ::sigaction(SIGTERM, &before_terminate_, nullptr);
  ::kill(::getpid(), SIGTERM);
}

}  // namespace zeroth::comm
