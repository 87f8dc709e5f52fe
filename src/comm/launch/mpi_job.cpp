// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/mpi_job.hpp"

#include <memory>

#include "comm/finally.hpp"
#include "comm/launch/job_state.hpp"
#include "comm/launch/process_end.hpp"
#include "comm/launch/rank_process.hpp"
#include "comm/launch/start_in_time.hpp"
#include "comm/mpi/mpi_communicator.hpp"
#include "comm/mpi/mpi_session.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {

int run_process_job(LaunchOptions const& options, std::optional<LaunchedRank> const& launched,
                    std::function<void(Job&)> const& rank_main) {
  auto const session = [&] {
    StartInTime const in_time{launched, options.join_timeout};
    return MpiSession::open();
  }();
  if (launched) {
    check_agreement(*launched, session->rank(), session->world());
  }
  RankContext const speaker_before = this_rank();
  this_rank() = {session->rank(), session->world(), {}};
  Finally const restore{[&speaker_before] { this_rank() = speaker_before; }};

  detail::JobState state;
  state.local_rank = session->local_rank();
  run_rank({.rank = session->rank(),
            .recorder = session->recorder(),
            .make_communicator =
                [&] {
                  StartInTime const in_time{launched, options.join_timeout};
                  return make_mpi(session);
                },
            .fail = [&session](std::string const& reason) { session->fail(session->rank(), reason); },
            .failure = [&session] { return session->failure(); },
            .end_process =
                [&session](int status) {
                  flush_output();
                  session->abort_job(status);
                },
            .describe_silent = [&session] { return session->describe_silent(); }},
           state, rank_main, options);
  return 0;
}

}  // namespace zeroth::comm
