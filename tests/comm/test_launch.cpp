// SPDX-License-Identifier: Apache-2.0
// launch() inside one process; tests/faults has the cases that end processes.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/launch/job_state.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth {
namespace {

void meet(Job& job) {
  auto const device = device::make_cpu_device();
  job.communicator().barrier(device->compute(), {"test", ""});
}

TEST_CASE("every thread is a rank and knows its number") {
  int const world = GENERATE(1, 2, 3, 5);
  struct Seen {
    int rank = -1, world = -1, local_rank = -1, speaker = -1, speakers = -1;
  };
  std::vector<Seen> seen(static_cast<std::size_t>(world));
  std::atomic<int> calls{0};
  int const status = launch({.thread_ranks = world}, [&](Job& job) {
    seen[static_cast<std::size_t>(calls++)] = {job.rank(), job.world(), job.local_rank(), this_rank().rank,
                                               this_rank().world};
    meet(job);
  });
  CHECK(status == 0);
  REQUIRE(calls == world);
  std::sort(seen.begin(), seen.end(), [](auto const& a, auto const& b) { return a.rank < b.rank; });
  for (int rank = 0; rank < world; ++rank) {
    auto const& each = seen[static_cast<std::size_t>(rank)];
    CHECK(each.rank == rank);
    CHECK(each.world == world);
    CHECK(each.local_rank == rank);
    CHECK(each.speaker == rank);
    CHECK(each.speakers == world);
  }
  CHECK(this_rank().rank == -1);
}

TEST_CASE("a stop that one rank requests reaches all ranks, but not the next job") {
  for (int job_number = 0; job_number < 2; ++job_number) {
    std::array<bool, 3> before{}, after{};
    int const status = launch({.thread_ranks = 3}, [&](Job& job) {
      auto const rank = static_cast<std::size_t>(job.rank());
      before[rank] = detail::JobState::of(job).stop_requested();
      meet(job);
      if (rank == 1) {
        job.request_stop();
      }
      meet(job);
      after[rank] = detail::JobState::of(job).stop_requested();
    });
    CHECK(status == 0);
    CHECK(before == std::array{false, false, false});
    CHECK(after == std::array{true, true, true});
  }
}

TEST_CASE("a process can run another job after a failed one") {
  testing::Folder const folder;
  std::array<std::string, 2> errors;
  int const status = launch({.thread_ranks = 2}, [&](Job& job) {
    detail::JobState::of(job).set_flight_folder(folder.path() / "flight");
    if (job.rank() == 1) {
      throw std::runtime_error{"one of two"};
    }
    try {
      meet(job);
    } catch (PeerError const& error) {
      errors[0] = error.what();
      throw;
    }
  });
  CHECK(status == 1);
  CHECK_THAT(errors[0], Catch::StartsWith("[rank 0/2] rank 1 failed: one of two"));
  CHECK(std::filesystem::exists(folder.path() / "flight" / "zeroth_flight_rank0.json"));
  CHECK(std::filesystem::exists(folder.path() / "flight" / "zeroth_flight_rank1.json"));
  CHECK(launch({.thread_ranks = 2}, [](Job& job) { meet(job); }) == 0);
}

TEST_CASE("a mistake of the stage file leaves no flight records") {
  testing::Folder const folder;
  int const status = launch({.thread_ranks = 2}, [&](Job& job) {
    detail::JobState::of(job).set_flight_folder(folder.path() / "flight");
    throw ConfigError{"a key is wrong"};
  });
  CHECK(status == ExitCode::wrong);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "flight"));
}

TEST_CASE("nested jobs are rejected") {
  testing::Folder const folder;
  std::atomic<int> inner{-1};
  int const outer = launch({.thread_ranks = 1}, [&](Job&) { inner = launch({.thread_ranks = 1}, [](Job&) {}); });
  CHECK(outer == 0);
  CHECK(inner == ExitCode::wrong);
}

std::atomic<int> handled{0};

TEST_CASE("signal handlers are restored after a job") {
  std::array<int, 3> const numbers{SIGINT, SIGTERM, SIGUSR1};
  for (int const number : numbers) {
    auto const before = std::signal(number, [](int) { ++handled; });
    handled = 0;
    CHECK(launch({.thread_ranks = 2}, [](Job& job) { meet(job); }) == 0);
    std::raise(number);
    CHECK(handled == 1);
    std::signal(number, before);
  }
}

TEST_CASE("a signal to a process that a rank forked ends that process, but not the job") {
  std::array<int, 3> ended_by{};
  std::atomic<bool> for_ever{true};
  bool stops = true;
  CHECK(launch({.thread_ranks = 1}, [&](Job& job) {
          std::array<int, 3> const numbers{SIGINT, SIGTERM, SIGUSR1};
          for (std::size_t each = 0; each < numbers.size(); ++each) {
            pid_t const child = ::fork();
            if (child == 0) {
              while (for_ever) {  // busy: in a forked process ThreadSanitizer runs handlers only at atomics
              }
            }
            ::kill(child, numbers[each]);
            int status = 0;
            ::waitpid(child, &status, 0);
            ended_by[each] = WIFSIGNALED(status) ? WTERMSIG(status) : -1;
          }
          meet(job);
          stops = detail::JobState::of(job).stop_requested();
        }) == 0);
  CHECK(ended_by == std::array{SIGINT, SIGTERM, SIGUSR1});
  CHECK_FALSE(stops);
}

TEST_CASE("a signal that was ignored stays ignored") {
  int const number = GENERATE(SIGTERM, SIGUSR1);
  auto const before = std::signal(number, SIG_IGN);
  bool stops = true;
  CHECK(launch({.thread_ranks = 2}, [&](Job& job) {
          if (job.rank() == 0) {
            std::raise(number);
            stops = detail::JobState::of(job).stop_requested();
          }
          meet(job);
        }) == 0);
  CHECK_FALSE(stops);
  std::signal(number, before);
}

TEST_CASE("a program that handles SIGUSR1 keeps it to itself") {
  auto const before = std::signal(SIGUSR1, [](int) { ++handled; });
  handled = 0;
  bool stops = true;
  CHECK(launch({.thread_ranks = 1}, [&stops](Job& job) {
          std::raise(SIGUSR1);
          stops = detail::JobState::of(job).stop_requested();
        }) == 0);
  std::signal(SIGUSR1, before);
  CHECK(handled == 1);
  CHECK_FALSE(stops);
}

TEST_CASE("SIGTERM calls the program's handler after flight records are written") {
  testing::Folder const folder;
  auto const before = std::signal(SIGTERM, [](int) { ++handled; });
  handled = 0;
  int const status = launch({.thread_ranks = 2}, [&](Job& job) {
    detail::JobState::of(job).set_flight_folder(folder.path());
    meet(job);
    if (job.rank() == 0) {
      std::raise(SIGTERM);
    }
    while (handled == 0) {
    }
    meet(job);
  });
  std::signal(SIGTERM, before);
  CHECK(status == 0);
  CHECK(std::filesystem::exists(folder.path() / "zeroth_flight_rank1.json"));
}

}  // namespace
}  // namespace zeroth
