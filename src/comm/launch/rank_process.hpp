// SPDX-License-Identifier: Apache-2.0
/// The life of a rank that is a process, with any transport: signals, flight records, and the end of the process if the
/// job fails.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/job_failure.hpp"
#include "zeroth/comm/flight_recorder.hpp"
#include "zeroth/comm/job.hpp"

namespace zeroth::comm {

struct RankProcess {
  int rank = 0;
  std::shared_ptr<FlightRecorder> recorder;
  std::function<std::unique_ptr<Communicator>()> make_communicator;  ///< All ranks.
  std::function<void()> after_all = [] {};  ///< Called once this rank has done its work and ended its communicators.
  std::function<void(std::string const&)> fail;        ///< Fails the job on all ranks, unless it has failed already.
  std::function<std::optional<JobFailure>()> failure;  ///< Any thread may call it, and also fail() and end_process().
  std::function<void(int)> end_process;                ///< Ends the process with this status; does not return.
  /// Describes the ranks that do not answer. Empty if all do, or if failure() would report it. Waits only briefly.
  std::function<std::string()> describe_silent = [] { return std::string{}; };
};

/// Runs `rank_main` on a job of `process` and `state`, whose communicator, flags and flight folder are set here.
/// Returns if all went well. If the job fails, it does not return: the rank that failed first prints the reason. The
/// others print theirs only after waiting `options.failure_grace` for it, less if its connection has ended or after
/// SIGTERM. Every rank writes its flight record, and ends its process with the code of its own exception. A process
/// whose thread has not returned that long after the failure, for whatever reason, is ended anyway.
void run_rank(RankProcess const& process, detail::JobState& state, std::function<void(Job&)> const& rank_main,
              LaunchOptions const& options);

}  // namespace zeroth::comm
