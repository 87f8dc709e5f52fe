#include "comm/process_job.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "comm/finally.hpp"
#include "comm/flight_files.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/mpi_session.hpp"
#include "comm/rank_error.hpp"
#include "comm/signals.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

/// For the other ranks to throw, and to write their flight records: launchers kill those that are left as soon as one
/// has ended, and a second after SIGTERM at the latest.
constexpr std::chrono::milliseconds grace_for_others{400};

/// Ends the job. The rank that failed first says why; the others wait until it has, and speak up only if it does not.
[[noreturn]] void end_job(MpiSession& session, FlightFiles& files, RankError const& error,
                          std::chrono::milliseconds grace) {
  bool const is_cause = !error.is_peer_error;
  if (is_cause) {
    print_error(error.text);
  }
  session.fail(session.rank(), fmt::format("rank {} failed: {}", session.rank(), error.bare));
  auto const failure = session.failure();
  bool const is_first = !failure || failure->origin == session.rank();
  if (is_first && !is_cause) {
    print_error(error.text);
  }
  files.write(failure ? failure->reason : error.text);
  std::this_thread::sleep_for(is_first ? grace_for_others : grace);
  if (!is_first && !is_cause) {
    print_error(error.text);
  }
  flush_output();
  session.abort_job(1);
}

}  // namespace

int run_process_job(LaunchOptions const& options, std::optional<Placement> const& placement,
                    std::function<void(Job&)> const& rank_main) {
  auto const session = MpiSession::open();
  if (placement) {
    check_agreement(*placement, session->rank(), session->world());
  }
  RankContext const speaker_before = this_rank();
  this_rank() = {session->rank(), session->world(), {}};
  Finally const restore{[&speaker_before] { this_rank() = speaker_before; }};

  FlightFiles files{session->rank(), {session->recorder()}};
  std::atomic<bool> stop{false};
  detail::JobState state;
  state.local_rank = session->local_rank();
  state.stop_requested = [&stop] { return stop.load(std::memory_order_relaxed); };
  state.request_stop = [&stop] { stop.store(true, std::memory_order_relaxed); };
  state.set_flight_folder = [&files](std::filesystem::path const& folder) { files.set_folder(folder); };
  SignalWatch const signals{{.interrupt =
                                 [&] {
                                   print_error(
                                       fmt::format("rank {} asks all ranks to stop; a second SIGINT ends it at "
                                                   "once",
                                                   session->rank()));
                                   stop.store(true, std::memory_order_relaxed);
                                 },
                             .terminate =
                                 [&] {
                                   auto const failure = session->failure();
                                   files.write(failure ? failure->reason : "SIGTERM");
                                   std::this_thread::sleep_for(grace_for_others);
                                 }}};
  try {
    state.communicator = make_mpi(session);
    Job job = state.job();
    rank_main(job);
    if (auto const failure = session->failure()) {
      throw PeerError{failure->reason};  // which rank_main kept to itself
    }
    state.communicator.reset();  // ranks that still wait for this one learn that it left
  } catch (...) {
    end_job(*session, files, describe_current_exception(), options.failure_grace);
  }
  return 0;
}

}  // namespace zeroth::comm
