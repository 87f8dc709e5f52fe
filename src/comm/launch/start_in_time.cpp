// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/start_in_time.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <string>
#include <utility>

#include "comm/describe.hpp"
#include "comm/launch/process_end.hpp"
#include "comm/mpi/mpi_session.hpp"
#include "zeroth/comm/exit_code.hpp"
#include "zeroth/tool/core/standard_streams.hpp"

namespace zeroth::comm {

StartInTime::StartInTime(std::optional<LaunchedRank> launched, std::chrono::milliseconds timeout)
    : launched_{std::move(launched)}, timeout_{timeout}, thread_{[this] {
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
  std::string const rank = launched_ ? fmt::format("[rank {}/{}] ", launched_->rank, launched_->world) : "";
  std::string const ranks = launched_ ? fmt::format("all {} ranks", launched_->world) : "all ranks";
  print_error(
      fmt::format("{}{} did not end within {}: it waits for {}, and at least one has not arrived. MPI does not report "
                  "which: look for a process that is stopped or slow to start, or a machine that cannot be reached "
                  "(LaunchOptions::join_timeout)",
                  rank, MpiSession::starting_call(), describe(timeout_), ranks));
  end_process(ExitCode::failed);
}

}  // namespace zeroth::comm
