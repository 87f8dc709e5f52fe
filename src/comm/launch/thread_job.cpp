// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/thread_job.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/describe.hpp"
#include "comm/launch/flight_files.hpp"
#include "comm/launch/job_state.hpp"
#include "comm/launch/process_end.hpp"
#include "comm/launch/signals.hpp"
#include "comm/local/local.hpp"
#include "comm/rank_error.hpp"
#include "core/counter.hpp"
#include "core/logger.hpp"
#include "core/start_thread.hpp"
#include "zeroth/comm/exit_code.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cuda.hpp"
#include "zeroth/tool/comm/restart_budget.hpp"
#include "zeroth/tool/core/standard_streams.hpp"

namespace zeroth::comm {
namespace {

std::vector<std::shared_ptr<FlightRecorder>> make_recorders(int world) {
  std::vector<std::shared_ptr<FlightRecorder>> recorders;
  for (int rank = 0; rank < world; ++rank) {
    recorders.push_back(std::make_shared<FlightRecorder>(rank, world));
  }
  return recorders;
}

/// Throws a failure of the job that rank_main caught, or that a destructor found.
void throw_what_was_kept(Communicator const& communicator) {
  if (auto const failure = communicator.failure()) {
    throw PeerError{*failure};
  }
}

constexpr auto no_progress = std::numeric_limits<std::int64_t>::min();

void raise_to(std::atomic<std::int64_t>& most, std::int64_t value) noexcept {
  auto seen = most.load(std::memory_order_relaxed);
  while (seen < value && !most.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

/// The calling thread only watches. Each rank has its own thread, so that a frozen one can be reported.
class ThreadJob {
 public:
  ThreadJob(LaunchOptions const& options, std::function<void(Job&)> const& rank_main);
  /// Returns the exit status.
  [[nodiscard]] int run();
  [[nodiscard]] std::string const& cause() const { return *printed_; }  ///< The reported failure.
  [[nodiscard]] bool stop_requested() const { return stop_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 private:
  struct Rank {
    detail::JobState state;
    std::thread thread;
    std::atomic<bool> ended{false};
  };
  void start_ranks();
  void run_rank(int rank);
  void note_end(Rank& rank) noexcept;
  void note_failure(int rank) noexcept;
  void tell_failure(int rank, RankError const& error);
  void wait_for_ranks();
  void end_frozen_ranks();
  void report();

  LaunchOptions options_;
  std::function<void(Job&)> const& rank_main_;
  std::vector<std::shared_ptr<FlightRecorder>> recorders_;
  FlightFiles files_;
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> progress_{no_progress};
  std::vector<Rank> ranks_;
  Counter ended_;
  std::atomic<bool> failed_{false};

  std::mutex mutex_;
  std::optional<std::string> printed_;     // the first error, once it is printed
  int exit_code_ = ExitCode::failed;       // that of the printed error
  bool of_config_ = false;                 // whether that is a mistake in the stage file
  std::set<std::string> said_;             // all printed errors, without the rank
  std::optional<std::string> peer_error_;  // the first error that only says that another rank failed
};

ThreadJob::ThreadJob(LaunchOptions const& options, std::function<void(Job&)> const& rank_main)
    : options_{options},
      rank_main_{rank_main},
      recorders_{make_recorders(options.thread_ranks)},
      files_{0, recorders_},
      ranks_(static_cast<std::size_t>(options.thread_ranks)) {
  auto communicators = make_local(options.thread_ranks, {}, recorders_);
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    auto& state = ranks_[i].state;
    state.communicator = std::move(communicators[i]);
    state.local_rank = static_cast<int>(i);
    if (options.device == DeviceKind::cuda) {
      state.make_device = [rank = state.local_rank] {
        auto device = device::make_cuda_device(rank % device::cuda_device_count());
        this_rank().device = device->name();
        return device;
      };
    }
    state.stop_requested = [this] { return stop_.load(std::memory_order_relaxed); };
    state.request_stop = [this] { stop_.store(true, std::memory_order_relaxed); };
    state.note_progress = [this](std::int64_t step) { raise_to(progress_, step); };
    state.set_flight_folder = [this](std::filesystem::path const& folder) { files_.set_folder(folder); };
  }
}

int ThreadJob::run() {
  SignalWatch const signals{{.who = "the process",
                             .ask =
                                 [this](int signal) {
                                   stop_.store(true, std::memory_order_relaxed);
                                   if (signal == SIGTERM) {
                                     files_.write_in_case("SIGTERM");
                                   }
                                 },
                             .record = [this](std::string const& why) { files_.write(why); },
                             .grace = options_.stop_grace}};
  start_ranks();
  wait_for_ranks();
  for (auto& rank : ranks_) {
    if (rank.thread.joinable()) {
      rank.thread.join();
    }
  }
  if (!failed_.load(std::memory_order_acquire)) {
    return 0;
  }
  report();
  return exit_code_;
}

/// If a thread cannot be started, aborts the job, so that started ones end.
void ThreadJob::start_ranks() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    auto const number = static_cast<int>(rank);
    try {
      ranks_[rank].thread =
          start_thread(fmt::format("rank {} of {}", rank, ranks_.size()), [this, number] { run_rank(number); });
    } catch (...) {
      note_failure(number);
      for (; rank < ranks_.size(); ++rank) {
        note_end(ranks_[rank]);
      }
    }
  }
}

void ThreadJob::run_rank(int rank) {
  auto& mine = ranks_[static_cast<std::size_t>(rank)];
  this_rank() = {rank, options_.thread_ranks, {}};
  ::pthread_setname_np(::pthread_self(), fmt::format("rank {}", rank).c_str());
  try {
    Job job = mine.state.job();
    rank_main_(job);
    throw_what_was_kept(*mine.state.communicator);
    mine.state.communicator.reset();  // ranks that still wait for this one learn that it left
  } catch (...) {
    note_failure(rank);
  }
  note_end(mine);
}

void ThreadJob::note_end(Rank& rank) noexcept {
  rank.ended.store(true, std::memory_order_release);
  ended_.add();
}

/// Reports the exception that is being handled.
void ThreadJob::note_failure(int rank) noexcept {
  auto& communicator = *ranks_[static_cast<std::size_t>(rank)].state.communicator;
  try {
    tell_failure(rank, describe_current_exception());
  } catch (std::exception const& error) {  // no memory for a message
    std::fprintf(stderr, "zeroth: rank %d failed, and so did saying why: %s\n", rank, error.what());
    communicator.abort({});
  }
  failed_.store(true, std::memory_order_release);
}

/// A rank that fails because another one did may report first, while the other one is still unwinding. So an error
/// other than PeerError is printed at once, and only once if several ranks have the same. A PeerError is printed only
/// if nothing else explains the end.
void ThreadJob::tell_failure(int rank, RankError const& error) {
  std::lock_guard const lock{mutex_};  // first: errors that follow from the abort must come second
  ranks_[static_cast<std::size_t>(rank)].state.communicator->abort(fmt::format("rank {} failed: {}", rank, error.bare));
  if (error.is_peer_error) {
    peer_error_ = peer_error_.value_or(error.text);
  } else if (said_.insert(error.bare).second) {
    print_error(error.text);
    exit_code_ = printed_ ? exit_code_ : error.exit_code;
    of_config_ = printed_ ? of_config_ : error.is_config_error;
    printed_ = printed_.value_or(error.text);
  }
}

void ThreadJob::wait_for_ranks() {
  constexpr std::chrono::milliseconds poll_interval{100};
  std::optional<Clock::time_point> deadline;
  while (!ended_.wait_until(static_cast<std::uint32_t>(ranks_.size()), Clock::now() + poll_interval)) {
    if (!failed_.load(std::memory_order_acquire)) {
      continue;
    }
    if (!deadline) {
      deadline = Clock::now() + options_.failure_grace;
    }
    if (Clock::now() >= *deadline) {
      end_frozen_ranks();
    }
  }
}

void ThreadJob::end_frozen_ranks() {
  report();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].ended.load(std::memory_order_acquire)) {
      print_error(fmt::format("rank {} did not stop within {} after that: it {}. The process exits without it", rank,
                              describe(options_.failure_grace), describe_last(*recorders_[rank])));
    }
  }
  end_process(exit_code_);
}

void ThreadJob::report() {
  std::lock_guard const lock{mutex_};
  if (!printed_) {
    printed_ = peer_error_.value_or("");
    print_error(*printed_);
  }
  if (!of_config_) {
    files_.write(*printed_);
  }
}

}  // namespace

int run_thread_job(LaunchOptions const& options, std::function<void(Job&)> const& rank_main) {
  RestartBudget budget{options.restarts};
  auto progress = no_progress;
  while (true) {
    std::string cause;
    bool has_moved = false;
    {
      ThreadJob job{options, rank_main};
      int const status = job.run();
      if (status != ExitCode::failed || options.restarts == 0 || job.stop_requested()) {
        return status;
      }
      cause = job.cause();
      has_moved = job.progress() > progress;
      progress = std::max(progress, job.progress());
    }
    auto const pause = budget.next(has_moved);
    if (!pause) {
      logger().warn("restart {} of {} without progress failed as well: the job ends", budget.used(), budget.most());
      return ExitCode::failed;
    }
    logger().warn("all ranks restart in {} s, restart {} of {} without progress, after: {}", pause->count(),
                  budget.used(), budget.most(), cause);
    std::this_thread::sleep_for(*pause);
  }
}

}  // namespace zeroth::comm
