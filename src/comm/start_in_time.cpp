#include "comm/start_in_time.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <string>
#include <utility>

#include "comm/describe.hpp"
#include "comm/mpi_session.hpp"
#include "comm/rank_error.hpp"

namespace zeroth::comm {

StartInTime::StartInTime(std::optional<Placement> placement, std::chrono::milliseconds timeout)
    : placement_{std::move(placement)}, timeout_{timeout}, thread_{[this] {
        ::pthread_setname_np(::pthread_self(), "start in time");
        watch();
      }} {}

StartInTime::~StartInTime() {
  over_.add();
  thread_.join();
}

void StartInTime::watch() {
  if (over_.wait_until(1, Clock::now() + timeout_)) {
    return;
  }
  std::string const rank = placement_ ? fmt::format("[rank {}/{}] ", placement_->rank, placement_->world) : "";
  std::string const ranks = placement_ ? fmt::format("all {} ranks", placement_->world) : "all ranks";
  print_error(fmt::format(
      "{}{} did not end within {}: it waits for {}, and at least one has not come. MPI does not say which: look for a "
      "process that is stopped or slow to start, or a machine that cannot be reached (LaunchOptions::join_timeout)",
      rank, MpiSession::starting_call(), describe(timeout_), ranks));
  end_process(1);
}

}  // namespace zeroth::comm
