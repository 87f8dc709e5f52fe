// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/rank_process.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "comm/describe.hpp"
#include "comm/launch/flight_files.hpp"
#include "comm/launch/job_state.hpp"
#include "comm/launch/signals.hpp"
#include "comm/rank_error.hpp"
#include "core/counter.hpp"
#include "core/start_thread.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/core/standard_streams.hpp"

namespace zeroth::comm {
namespace {

/// Time for the other ranks to throw and to write their flight records. Launchers kill the remaining ranks as soon as
/// one has ended, at the latest a second after SIGTERM.
constexpr std::chrono::milliseconds grace_for_others{400};
constexpr std::chrono::milliseconds between_waits{50};

/// Waits `grace` for another rank's message, or until SIGTERM arrives.
void let_others_speak(std::chrono::milliseconds grace, std::atomic<bool> const& terminated) {
  constexpr std::chrono::milliseconds between_looks_for_signal{10};
  auto const deadline = Clock::now() + grace;
  while (!terminated.load(std::memory_order_relaxed) && Clock::now() < deadline) {
    std::this_thread::sleep_for(between_looks_for_signal);
  }
}

void end(RankProcess const& process, FlightFiles& files, RankError const& error, std::chrono::milliseconds grace,
         std::atomic<bool> const& terminated) {
  bool const is_cause = !error.is_peer_error;
  if (is_cause) {
    print_error(error.text);
  }
  auto const own_reason = fmt::format("rank {} failed: {}", process.rank, error.bare);
  process.fail(own_reason);
  auto const failure = process.failure();
  bool const is_first = !failure || failure->origin == process.rank;
  if (is_first && !is_cause) {
    print_error(error.text);
  }
  if (!error.is_config_error) {
    // This rank's first error may only be that its engine was unwound.
    files.write(failure && !(is_first && is_cause) ? failure->reason : own_reason);
  }
  if (is_first) {
    std::this_thread::sleep_for(grace_for_others);
  } else {
    let_others_speak(failure->is_over ? std::min(grace, grace_for_others) : grace, terminated);
  }
  // A launcher sends SIGTERM because another rank has ended. That rank has printed the reason, unless it was killed.
  bool const is_said = terminated.load(std::memory_order_relaxed) && !(failure && failure->is_over);
  if (!is_first && !is_cause && !is_said) {
    print_error(error.text);
  }
  process.end_process(error.exit_code);
}

/// Ends the process `grace` after the job has failed, if its own thread does not do so. That thread may be stuck in a
/// destructor, such as that of GPU memory that waits for work which never ends.
class EndInTime {
 public:
  EndInTime(RankProcess const& process, FlightFiles& files, std::chrono::milliseconds grace,
            std::atomic<bool> const& terminated)
      : process_{process},
        files_{files},
        grace_{grace},
        terminated_{terminated},
        thread_{start_thread("the watch of this rank's end", [this, speaker = this_rank()] {
          this_rank() = speaker;
          ::pthread_setname_np(::pthread_self(), "end in time");
          watch();
        })} {}
  /// Does not return if it is already ending the process.
  ~EndInTime() {
    over_.add();
    thread_.join();
  }
  EndInTime(EndInTime const&) = delete;
  EndInTime& operator=(EndInTime const&) = delete;

 private:
  void watch() noexcept {
    while (!over_.wait_until(1, Clock::now() + between_waits)) {
      if (auto const failure = process_.failure()) {
        if (failure->origin != process_.rank) {  // the launcher may kill this rank before its own thread writes
          files_.write(failure->reason);
        }
        if (!over_.wait_until(1, Clock::now() + grace_)) {
          auto const reason = fmt::format("{}; rank {} did not stop within {}, and is terminated", failure->reason,
                                          process_.rank, describe(grace_));
          end(process_, files_, {rank_prefix() + reason, reason, true}, std::chrono::milliseconds{0}, terminated_);
        }
        return;
      }
    }
  }

  RankProcess const& process_;
  FlightFiles& files_;
  std::chrono::milliseconds grace_;
  std::atomic<bool> const& terminated_;
  Counter over_;
  std::thread thread_;
};

}  // namespace

void run_rank(RankProcess const& process, detail::JobState& state, std::function<void(Job&)> const& rank_main,
              LaunchOptions const& options) {
  auto const grace = options.failure_grace;
  FlightFiles files{process.rank, {process.recorder}};
  std::atomic<bool> stop{false}, terminated{false};
  state.stop_requested = [&stop] { return stop.load(std::memory_order_relaxed); };
  state.request_stop = [&stop] { stop.store(true, std::memory_order_relaxed); };
  state.set_flight_folder = [&files](std::filesystem::path const& folder) { files.set_folder(folder); };
  // Launchers end all ranks when one of them is gone; a record with the cause says more than SIGTERM.
  std::string silent;
  auto const cause_of_end = [&](std::string const& why) {
    auto const failure = process.failure();
    return failure ? failure->reason : silent.empty() ? why : fmt::format("{}; {}", why, silent);
  };
  SignalWatch::Actions const actions{.who = fmt::format("rank {}", process.rank),
                                     .ask =
                                         [&](int signal) {
                                           stop.store(true, std::memory_order_relaxed);
                                           if (signal == SIGTERM) {
                                             terminated.store(true, std::memory_order_relaxed);
                                             files.write_in_case("SIGTERM");  // at once: a kill may follow soon
                                             silent = process.describe_silent();
                                             if (auto const cause = cause_of_end("SIGTERM"); cause != "SIGTERM") {
                                               files.write_in_case(cause);
                                             }
                                           }
                                         },
                                     .record = [&](std::string const& why) { files.write(cause_of_end(why)); },
                                     .grace = options.stop_grace};
  std::optional<SignalWatch> signals;
  try {
    signals.emplace(actions);
  } catch (SystemError const&) {  // the other ranks are already waiting
    end(process, files, describe_current_exception(), grace, terminated);
  }
  std::optional<EndInTime> end_in_time;
  try {
    end_in_time.emplace(process, files, grace, terminated);
    state.communicator = process.make_communicator();
    Job job = state.job();
    rank_main(job);
    if (auto const failure = process.failure()) {
      throw PeerError{failure->reason};  // rank_main caught it
    }
    state.communicator.reset();  // ranks that still wait for this one learn that it left
    process.after_all();
  } catch (...) {
    end_in_time.reset();  // this thread has arrived, and knows more
    end(process, files, describe_current_exception(), grace, terminated);
  }
}

}  // namespace zeroth::comm
