// SPDX-License-Identifier: Apache-2.0
/// The life of a rank that is a process, whatever its ranks communicate by: signals, flight records, and how the
/// process ends when the job fails.
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
  std::function<void()> after_all = [] {};       ///< Once this rank has done its work and ended its communicators.
  std::function<void(std::string const&)> fail;  ///< Tells all ranks, unless the job has failed already.
  std::function<std::optional<JobFailure>()> failure;  ///< Any thread, as fail() and end_process().
  std::function<void(int)> end_process;                ///< With this status; does not return.
  /// Which ranks do not answer, in words; empty if all do, or if failure() would tell. Waits, but not for long.
  std::function<std::string()> describe_silent = [] { return std::string{}; };
};

/// Runs `rank_main` on a job of `process` and `state`, whose communicator, flags and flight folder are set here.
/// Returns when all went well. Otherwise does not return: the rank that failed first prints why, the others wait
/// `options.failure_grace` for it, shorter where its connection has ended or after SIGTERM, and speak up only then;
/// every rank writes its flight record, and ends its process with the code of what it threw itself. A rank whose thread
/// has not come back as long after the job failed, whatever holds it, is ended under it.
void run_rank(RankProcess const& process, detail::JobState& state, std::function<void(Job&)> const& rank_main,
              LaunchOptions const& options);

}  // namespace zeroth::comm
