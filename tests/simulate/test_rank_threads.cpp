// SPDX-License-Identifier: Apache-2.0
/// The end of simulated ranks after an error.
#include "simulate/rank_threads.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include "comm/abort_state.hpp"
#include "faults/few_threads.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::simulate {
namespace {

/// Waits for other ranks until the job is aborted.
void wait_for(comm::AbortState const& abort) {
  while (!abort.aborted()) {
    std::this_thread::yield();
  }
  throw PeerError{abort.reason()};
}

TEST_CASE("Every rank runs once") {
  std::vector<int> runs(7);
  run_rank_threads(
      runs.size(), [&](std::size_t rank) { ++runs[rank]; }, [](std::string const&) {});
  CHECK(runs == std::vector<int>(7, 1));
}

TEST_CASE("The cause is thrown, whichever rank failed, and not the other ranks' reports of it") {
  for (std::size_t const guilty : {0U, 2U, 3U}) {
    comm::AbortState abort;
    auto const message = testing::thrown<ContractError>([&] {
      run_rank_threads(
          4,
          [&](std::size_t rank) {
            if (rank == guilty) {
              throw ContractError{"a rank that does wrong"};
            }
            wait_for(abort);
          },
          [&](std::string const& reason) { abort.abort(reason); });
    });
    CHECK(message == "a rank that does wrong");
    CHECK(abort.reason() == "simulated rank " + std::to_string(guilty) + " failed: a rank that does wrong");
  }
}

TEST_CASE("The cause is thrown even if its rank tells the others before it ends itself") {
  comm::AbortState abort;
  std::atomic<int> told{0};
  auto const message = testing::thrown<ConfigError>([&] {
    run_rank_threads(
        3,
        [&](std::size_t rank) {
          if (rank == 2) {
            abort.abort("the engine of rank 2 ended by an error");  // like its destructor
            while (told < 2) {
              std::this_thread::yield();
            }
            throw ConfigError{"why"};
          }
          try {
            wait_for(abort);
          } catch (...) {
            ++told;
            throw;
          }
        },
        [&](std::string const& reason) { abort.abort(reason); });
  });
  CHECK(message == "why");
}

TEST_CASE("Without a cause, the report of a rank is thrown") {
  comm::AbortState abort;
  abort.abort("from outside");
  CHECK(testing::thrown<PeerError>([&] {
          run_rank_threads(
              2, [&](std::size_t /*rank*/) { wait_for(abort); }, [](std::string const&) {});
        }) == "from outside");
}

TEST_CASE("If a thread cannot be started, the ranks that wait for it end") {
  comm::AbortState abort;
  std::atomic<int> ran{0};
  auto const message = testing::thrown<SystemError>([&] {
    testing::leave_threads(2);
    run_rank_threads(
        4,
        [&](std::size_t /*rank*/) {
          ++ran;
          wait_for(abort);
        },
        [&](std::string const& reason) { abort.abort(reason); });
  });
  testing::leave_threads(1'000'000);
  CHECK(message == "cannot start a thread for simulated rank 2 of 4: Resource temporarily unavailable");
  CHECK(ran == 2);
}

}  // namespace
}  // namespace zeroth::simulate
