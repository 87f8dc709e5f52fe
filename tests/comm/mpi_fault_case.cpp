// SPDX-License-Identifier: Apache-2.0
// Run by mpirun, by test_mpi_fault_cases: runs one of the suite's fault cases, given by its number, and prints the
// problem of every rank.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "comm/conformance.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/device/cpu.hpp"

namespace {

/// The first process that exits ends the others, so all finish before one exits. The communicator has failed by now, so
/// every rank leaves a file in the working folder instead.
void await_others(zeroth::Job const& job) {
  auto const file_of = [](int rank) { return fmt::format("done_{}", rank); };
  std::ofstream{file_of(job.rank())}.flush();
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::minutes{3};
  for (int rank = 0; rank < job.world() && std::chrono::steady_clock::now() < deadline;) {
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
    rank += std::filesystem::exists(file_of(rank)) ? 1 : 0;
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace zeroth;
  auto const cases = comm::conformance::fault_cases();
  auto const number = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : cases.size();
  if (number >= cases.size()) {
    fmt::print(stderr, "a number less than {} is needed\n", cases.size());
    return 2;
  }
  return launch({.transport = comm::Transport::mpi}, [&](Job& job) {
    auto const device = device::make_cpu_device();
    auto& communicator = job.communicator();
    communicator.set_options({std::chrono::minutes{3}, true});
    comm::conformance::Rank rank{communicator, *device};
    auto const problem = problem_of(cases[number], rank);
    fmt::print("rank {}: {}\n", job.rank(), problem.empty() ? "as it should be." : problem);
    std::fflush(stdout);
    await_others(job);
  });
}
