// SPDX-License-Identifier: Apache-2.0
/// `zeroth run --transport mpi`: ranks of mpirun, and the use of its exit status.
#include <csignal>

#include "run_support.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

Child::Options under_mpirun(Words const& scenario, Folder const& folder) {
  return zeroth_run_ranks({"--ranks", "2", "--transport", "mpi", "--max-restarts", "1", "--mpirun", ZEROTH_MPIRUN},
                          scenario, folder);
}

void check_ranks_gone(std::string const& output) {
  for (auto const* const who : {"rank 0 is process ", "rank 1 is process "}) {
    CHECK(is_gone(number_behind(output, who)));
  }
}

TEST_CASE("mpirun's ranks are restarted after failures, but not after mistakes") {
  struct Row {
    std::string scenario;
    int status, attempts;
  };
  for (auto const& row : {Row{"fine", 0, 1}, Row{"wrong", 2, 1}, Row{"throw", 1, 2}}) {
    Folder const folder;
    Child child{under_mpirun({row.scenario}, folder)};
    auto const ending = child.wait();
    CAPTURE(child.output());
    CHECK(ending.in_time);
    CHECK(ending.status == row.status);
    CHECK(count_of(child.output(), "rank 1 is process ") == row.attempts);
  }
}

TEST_CASE("mpirun's ranks save and end on SIGUSR1") {
  Folder const folder;
  Child child{under_mpirun({"save_when_stopped"}, folder)};
  REQUIRE(child.wait_for("is under way.", 2));
  child.send(SIGUSR1);
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.status == 75);
  CHECK_THAT(child.output(), !Contains("zeroth run:"));
}

TEST_CASE("mpirun's ranks do not outlive a zeroth run that is killed") {
  Folder const folder;
  Child child{under_mpirun({"steps"}, folder)};
  REQUIRE(child.wait_for("is under way.", 2));
  child.send(SIGKILL);
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  check_ranks_gone(child.output());
}

}  // namespace
}  // namespace zeroth::testing
