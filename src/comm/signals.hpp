/// Signals while a job runs.
#pragma once
#include <functional>
#include <thread>

#include <csignal>

namespace zeroth::comm {

/// Brings SIGINT and SIGTERM to a thread of its own while it lives. The handler only passes on the number, whatever
/// thread it runs on, so the actions may do anything; no thread's signal mask is touched, so that programs which ranks
/// start are born as usual. A signal that was ignored before stays so. Processes that are forked while it lives end by
/// theirs.
class SignalWatch {
 public:
  struct Actions {
    std::function<void()> interrupt;  ///< The first SIGINT. The second ends the process with status 130.
    std::function<void()> terminate;  ///< SIGTERM. Then it does what it did before, by default: end the process.
  };
  /// Throws ContractError if another one lives.
  explicit SignalWatch(Actions actions);
  ~SignalWatch();
  SignalWatch(SignalWatch const&) = delete;
  SignalWatch& operator=(SignalWatch const&) = delete;

 private:
  void watch();
  void restore() noexcept;

  Actions actions_;
  struct sigaction before_interrupt_ {};
  struct sigaction before_terminate_ {};
  std::thread thread_;
};

}  // namespace zeroth::comm
