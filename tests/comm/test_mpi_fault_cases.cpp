// SPDX-License-Identifier: Apache-2.0
// Faults end a job, and its processes: each case of the suite runs in a job of its own.
#include "comm/conformance.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"

namespace zeroth::comm::conformance {
namespace {

TEST_CASE("mpi faults end every rank") {
  int const world = GENERATE(2, 3);
  auto const cases = fault_cases();
  for (std::size_t number = 0; number < cases.size(); ++number) {
    testing::Folder const folder;
    testing::Child::Options options{
        .command = testing::words_of(ZEROTH_MPIRUN), .folder = folder.path(), .environment = {}};
    options.command.insert(options.command.end(),
                           {"-n", std::to_string(world), ZEROTH_FAULT_CASE, std::to_string(number)});
    testing::Child child{options};
    auto const ending = child.wait();
    CAPTURE(world, cases[number].name, child.output());
    CHECK(ending.in_time);
    CHECK(testing::count_of(child.output(), ": as it should be.\n") == world);
  }
}

}  // namespace
}  // namespace zeroth::comm::conformance
