// SPDX-License-Identifier: Apache-2.0
// Programs that have initialised MPI themselves. A process that has initialised MPI must not start them, because mpirun
// would take its environment for that of a rank.
#include "support/catch.hpp"
#include "support/child.hpp"

namespace zeroth {
namespace {

using Catch::Contains;

testing::Child::Options own_init(char const* level, testing::Folder const& folder) {
  testing::Child::Options options{
      .command = testing::words_of(ZEROTH_MPIRUN), .folder = folder.path(), .environment = {}};
  options.command.insert(options.command.end(), {"-n", "2", ZEROTH_OWN_INIT, level});
  return options;
}

TEST_CASE("MPI stays initialised if the program initialised it") {
  testing::Folder const folder;
  testing::Child child{own_init("multiple", folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 0);
  CHECK(testing::count_of(child.output(), "jobs ended with 0, and MPI still counts 2 ranks.") == 2);
}

TEST_CASE("a rank that initialised MPI but does not join the job is reported within the timeout") {
  auto const* const mode = GENERATE("no_job", "one_job");
  testing::Folder const folder;
  testing::Child child{own_init(mode, folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.status != 0);
  CHECK_THAT(child.output(), Contains("[rank 0/2] MPI_Comm_dup did not end within 500 ms: it waits for all 2 ranks"));
}

TEST_CASE("an error names the thread level that is needed if the program initialised MPI with less") {
  testing::Folder const folder;
  testing::Child child{own_init("single", folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 3);
  CHECK_THAT(child.output(), Contains("the program initialised MPI with MPI_THREAD_SINGLE") &&
                                 Contains("needs MPI_THREAD_MULTIPLE") && Contains("jobs ended with 2"));
}

}  // namespace
}  // namespace zeroth
