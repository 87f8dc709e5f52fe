// SPDX-License-Identifier: Apache-2.0
// Run by mpirun on two ranks: counts that do not fit MPI's int.
#include "comm/conformance.hpp"
#include "support/catch.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::comm::conformance {
namespace {

TEST_CASE("the mpi communicator moves more than 2^31 elements") {
  int const status = launch({.transport = Transport::mpi}, [](Job& job) {
    auto const device = device::make_cpu_device();
    Rank rank{job.communicator(), *device};
    for (auto const& each : large_cases()) {
      CAPTURE(each.name, job.rank());
      CHECK(problem_of(each, rank) == "");
    }
  });
  CHECK(status == 0);
}

}  // namespace
}  // namespace zeroth::comm::conformance
