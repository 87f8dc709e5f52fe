// SPDX-License-Identifier: Apache-2.0
// Faults end a job and its processes, so each case of the suite runs in a separate job.
#include <array>

#include "comm/conformance.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"

namespace zeroth::comm::conformance {
namespace {

/// Runs one of the suite's cases, in a job of `ranks` ranks.
struct Run {
  Run(std::size_t number, int ranks) : world{ranks}, child{options(number)} {}
  [[nodiscard]] testing::Child::Options options(std::size_t number) const {
    testing::Child::Options all{
        .command = testing::words_of(ZEROTH_MPIRUN), .folder = folder.path(), .environment = {}};
    all.command.insert(all.command.end(), {"-n", std::to_string(world), ZEROTH_FAULT_CASE, std::to_string(number)});
    return all;
  }
  int world;
  testing::Folder folder;
  testing::Child child;
};

TEST_CASE("mpi faults end every rank") {
  auto const cases = fault_cases();
  for (std::size_t number = 0; number < cases.size(); ++number) {
    std::array<Run, 2> both{Run{number, 2}, Run{number, 3}};  // they wait at the same time
    for (auto& [world, folder, child] : both) {
      auto const ending = child.wait();
      CAPTURE(world, cases[number].name, child.output());
      CHECK(ending.in_time);
      CHECK(testing::count_of(child.output(), ": as it should be.\n") == world);
    }
  }
}

}  // namespace
}  // namespace zeroth::comm::conformance
