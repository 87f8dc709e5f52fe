#include "comm/signals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "comm/rank_error.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr unsigned char end_of_watch = 0;

/// Made once and never closed, so that a handler that runs late writes to nobody else's file.
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

// for the handler
std::atomic<int> write_end{-1};
std::atomic<pid_t> watching{0};
std::atomic<bool> watched{false};

/// A process that was forked has the handler and the pipe as well, and its signals are none of the job's.
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

}  // namespace

SignalWatch::SignalWatch(Actions actions) : actions_{std::move(actions)} {
  ZEROTH_EXPECTS(!watched.exchange(true),
                 "launch() was called while another one runs in this process; run one after "
                 "the other");
  try {
    write_end.store(signal_pipe().write_end, std::memory_order_relaxed);
    watching.store(::getpid(), std::memory_order_relaxed);
    thread_ = std::thread{[this] { watch(); }};
  } catch (...) {
    watched.store(false);
    throw;
  }
  before_interrupt_ = install(SIGINT);
  before_terminate_ = install(SIGTERM);
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
}

void SignalWatch::watch() {
  bool interrupted = false;
  while (true) {
    unsigned char number = end_of_watch;
    if (::read(signal_pipe().read_end, &number, 1) < 0 && errno == EINTR) {
      continue;
    }
    if (number == SIGINT && std::exchange(interrupted, true)) {
      end_process(128 + SIGINT);
    }
    if (number == SIGINT) {
      actions_.interrupt();
    } else if (number == SIGTERM) {
      actions_.terminate();
      flush_output();
      sigset_t both;
      sigemptyset(&both);
      sigaddset(&both, SIGTERM);
      ::pthread_sigmask(SIG_UNBLOCK, &both, nullptr);  // the thread may have been born with it blocked
      ::sigaction(SIGTERM, &before_terminate_, nullptr);
      ::kill(::getpid(), SIGTERM);
    } else {
      return;
    }
  }
}

}  // namespace zeroth::comm
