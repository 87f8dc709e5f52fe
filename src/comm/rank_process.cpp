#include "comm/rank_process.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "comm/flight_files.hpp"
#include "comm/rank_error.hpp"
#include "comm/signals.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

/// For the other ranks to throw, and to write their flight records: launchers kill those that are left as soon as one
/// has ended, and a second after SIGTERM at the latest.
constexpr std::chrono::milliseconds grace_for_others{400};

void end(RankProcess const& process, FlightFiles& files, RankError const& error, std::chrono::milliseconds grace) {
  bool const is_cause = !error.is_peer_error;
  if (is_cause) {
    print_error(error.text);
  }
  process.fail(fmt::format("rank {} failed: {}", process.rank, error.bare));
  auto const failure = process.failure();
  bool const is_first = !failure || failure->origin == process.rank;
  if (is_first && !is_cause) {
    print_error(error.text);
  }
  files.write(failure ? failure->reason : error.text);
  std::this_thread::sleep_for(is_first ? grace_for_others : grace);
  if (!is_first && !is_cause) {
    print_error(error.text);
  }
  process.end_process();
}

}  // namespace

void run_rank(RankProcess const& process, detail::JobState& state, std::function<void(Job&)> const& rank_main,
              std::chrono::milliseconds grace) {
  FlightFiles files{process.rank, {process.recorder}};
  std::atomic<bool> stop{false};
  state.stop_requested = [&stop] { return stop.load(std::memory_order_relaxed); };
  state.request_stop = [&stop] { stop.store(true, std::memory_order_relaxed); };
  state.set_flight_folder = [&files](std::filesystem::path const& folder) { files.set_folder(folder); };
  SignalWatch const signals{
      {.interrupt =
           [&] {
             print_error(fmt::format("rank {} asks all ranks to stop; a second SIGINT ends it at once", process.rank));
             stop.store(true, std::memory_order_relaxed);
           },
       .terminate =
           [&] {
             auto const failure = process.failure();
             files.write(failure ? failure->reason : "SIGTERM");
             std::this_thread::sleep_for(grace_for_others);
           }}};
  try {
    state.communicator = process.make_communicator();
    Job job = state.job();
    rank_main(job);
    if (auto const failure = process.failure()) {
      throw PeerError{failure->reason};  // which rank_main kept to itself
    }
    state.communicator.reset();  // ranks that still wait for this one learn that it left
    process.after_all();
  } catch (...) {
    end(process, files, describe_current_exception(), grace);
  }
}

}  // namespace zeroth::comm
