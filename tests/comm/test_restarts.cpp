// SPDX-License-Identifier: Apache-2.0
// The status that launch() returns for a failed job, and the number of restarts.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/launch/job_state.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/log.hpp"
#include "zeroth/comm/exit_code.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"
#include "zeroth/tool/comm/restart_budget.hpp"

namespace zeroth {
namespace {

constexpr int world = 3;

void meet(Job& job) {
  auto const device = device::make_cpu_device();
  job.communicator().barrier(device->compute(), {"test", ""});
}

/// Runs jobs without flight records, and counts how often ranks began.
class Jobs {
 public:
  int run(int restarts, std::function<void(Job&, int)> const& rank_main) {
    began_ = 0;
    return launch({.thread_ranks = world, .restarts = restarts}, [&](Job& job) {
      detail::JobState::of(job).set_flight_folder(folder_.path());
      int const attempt = began_++ / world + 1;  // all ranks of an attempt end before the next one begins
      rank_main(job, attempt);
    });
  }
  [[nodiscard]] int attempts() const { return began_ / world; }

 private:
  testing::Folder folder_;
  std::atomic<int> began_{0};
};

/// Rank 1 throws. The others wait for it, and end with PeerErrors.
template <class E>
void fail_on_rank_1(Job& job) {
  if (job.rank() == 1) {
    throw E{"rank 1 does not like it"};
  }
  meet(job);
}

std::vector<std::int64_t> pauses(RestartBudget& budget, int count) {
  std::vector<std::int64_t> seconds;
  for (int i = 0; i < count; ++i) {
    auto const pause = budget.next(false);
    seconds.push_back(pause ? pause->count() : -1);
  }
  return seconds;
}

}  // namespace

TEST_CASE("restarts wait longer each time, and stop if there is no progress") {
  RestartBudget budget{7};
  CHECK(pauses(budget, 8) == std::vector<std::int64_t>{1, 2, 4, 8, 16, 30, 30, -1});
  CHECK(budget.used() == 7);
  CHECK(budget.next(true) == std::chrono::seconds{1});
  CHECK(budget.used() == 1);
  CHECK(pauses(budget, 1) == std::vector<std::int64_t>{2});
  RestartBudget none{0};
  CHECK_FALSE(none.next(true));
}

TEST_CASE("the exit status distinguishes failures from mistakes, by the first error that is the job's own") {
  Jobs jobs;
  CHECK(jobs.run(0, [](Job& job, int) { meet(job); }) == ExitCode::done);
  CHECK(jobs.run(0, [](Job& job, int) { fail_on_rank_1<ConfigError>(job); }) == ExitCode::wrong);
  CHECK(jobs.run(0, [](Job& job, int) { fail_on_rank_1<ContractError>(job); }) == ExitCode::wrong);
  CHECK(jobs.run(0, [](Job& job, int) { fail_on_rank_1<SystemError>(job); }) == ExitCode::failed);
  CHECK(jobs.run(0, [](Job& job, int) { fail_on_rank_1<PeerError>(job); }) == ExitCode::failed);
  CHECK(jobs.run(0, [](Job& job, int) { fail_on_rank_1<std::runtime_error>(job); }) == ExitCode::failed);
  CHECK(jobs.run(0, [](Job& job, int) {
    if (job.rank() == 1) {
      throw 5;
    }
    meet(job);
  }) == ExitCode::failed);
  CHECK(jobs.run(0, [](Job& job, int) {  // an error that follows from another rank's failure comes second
    try {
      fail_on_rank_1<std::runtime_error>(job);
    } catch (PeerError const&) {
      throw ContractError{"a rank is gone"};
    }
  }) == ExitCode::failed);
  CHECK(launch({.thread_ranks = 0}, [](Job&) {}) == ExitCode::wrong);
}

TEST_CASE("a program that catches an error itself can compute its exit status") {
  CHECK(exit_code_of(ConfigError{"wrong"}) == 2);
  CHECK(exit_code_of(ContractError{"wrong"}) == 2);
  CHECK(exit_code_of(DamagedError{"wrong"}) == 2);
  CHECK(exit_code_of(PeerError{"failed"}) == 1);
  CHECK(exit_code_of(SystemError{"failed"}) == 1);
  CHECK(exit_code_of(std::invalid_argument{"failed"}) == 1);
}

TEST_CASE("a failed job restarts on all ranks, and logs why") {
  Jobs jobs;
  testing::Log const log;
  CHECK(jobs.run(2, [](Job& job, int attempt) {
    if (attempt == 1) {
      fail_on_rank_1<std::runtime_error>(job);
    }
    meet(job);
  }) == ExitCode::done);
  CHECK(jobs.attempts() == 2);
  CHECK(log.count(
            "all ranks restart in 1 s, restart 1 of 2 without progress, after: [rank 1/3] rank 1 does not like it") ==
        1);
}

TEST_CASE("a job that keeps failing ends, and a job that no restart can help ends at once") {
  Jobs jobs;
  testing::Log const log;
  CHECK(jobs.run(1, [](Job& job, int) { fail_on_rank_1<std::runtime_error>(job); }) == ExitCode::failed);
  CHECK(jobs.attempts() == 2);
  CHECK(log.count("restart 1 of 1 without progress failed as well: the job ends") == 1);

  CHECK(jobs.run(5, [](Job& job, int) { fail_on_rank_1<ConfigError>(job); }) == ExitCode::wrong);
  CHECK(jobs.attempts() == 1);
  CHECK(jobs.run(0, [](Job& job, int) { fail_on_rank_1<std::runtime_error>(job); }) == ExitCode::failed);
  CHECK(jobs.attempts() == 1);
}

TEST_CASE("the budget of restarts is full again once a job saves more than ever before") {
  Jobs jobs;
  std::vector<std::int64_t> const saved{-5, 7, 7};  // saved steps by attempt; the third saves nothing new
  CHECK(jobs.run(1, [&saved](Job& job, int attempt) {
    if (job.rank() == 2) {
      auto const step = saved.at(static_cast<std::size_t>(attempt - 1));
      job.note_progress(step);
      job.note_progress(step - 1);
    }
    meet(job);
    fail_on_rank_1<std::runtime_error>(job);
  }) == ExitCode::failed);
  CHECK(jobs.attempts() == 3);
}

TEST_CASE("a save by a part of the ranks counts as progress of the job") {
  Jobs jobs;
  CHECK(jobs.run(1, [](Job& job, int attempt) {
    {
      Job part = job.split(job.rank() == 0 ? 0 : 1, 0, "part");
      if (job.rank() == 0 && attempt == 2) {
        part.note_progress(1);
      }
      meet(part);
    }
    meet(job);
    fail_on_rank_1<std::runtime_error>(job);
  }) == ExitCode::failed);
  CHECK(jobs.attempts() == 3);
}

TEST_CASE("a job that was asked to stop does not restart") {
  Jobs jobs;
  CHECK(jobs.run(3, [](Job& job, int) {
    job.request_stop();
    meet(job);
    fail_on_rank_1<std::runtime_error>(job);
  }) == ExitCode::failed);
  CHECK(jobs.attempts() == 1);
}

}  // namespace zeroth
