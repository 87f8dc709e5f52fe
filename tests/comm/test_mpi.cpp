// SPDX-License-Identifier: Apache-2.0
// Run by mpirun, and by zeroth run over tcp. The launch runs its ranks on the calling thread, so assertions are allowed
// there.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "comm/conformance.hpp"
#include "support/catch.hpp"
#include "support/process_transport.hpp"
#include "zeroth/comm/flight_recorder.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::comm::conformance {
namespace {

int launch_processes(std::function<void(Rank&)> const& body) {
  return launch({.transport = testing::process_transport()}, [&](Job& job) {
    auto const device = device::make_cpu_device();
    Rank rank{job.communicator(), *device};
    body(rank);
  });
}

TEST_CASE("Open MPI's calls give up the core where ranks share cores") {
  REQUIRE(launch({.transport = testing::process_transport()}, [](Job&) {}) == 0);
  char const* const ranks_on_machine = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (testing::process_transport() != Transport::mpi || ranks_on_machine == nullptr) {
    return;  // there is no Open MPI
  }
  bool const shared = std::getenv("ZEROTH_SPIN") != nullptr ||
                      static_cast<unsigned>(std::stoi(ranks_on_machine)) > std::thread::hardware_concurrency();
  char const* const yields = std::getenv("OMPI_MCA_mpi_yield_when_idle");
  REQUIRE(yields != nullptr);
  CHECK(std::string{yields} == (shared ? "1" : "0"));
}

TEST_CASE("communicators of processes conform") {
  bool const check = GENERATE(false, true);
  bool const with_staging = GENERATE(true, false);
  int const status = launch_processes([&](Rank& rank) {
    auto& communicator = rank.communicator;
    std::vector<std::byte> staging(static_cast<std::size_t>(
        staging_bytes(communicator.transport(), communicator.world(), Dtype::fp64, largest_count)));
    if (with_staging) {
      communicator.set_staging(staging);
    }
    communicator.set_options({std::chrono::minutes{3}, check});
    for (auto const& each : conformance_cases()) {
      CAPTURE(each.name, check, with_staging, communicator.rank(), communicator.world());
      CHECK(problem_of(each, rank) == "");
    }
  });
  CHECK(status == 0);
}

TEST_CASE("staging that is too small is refused before anything is enqueued") {
  int const status = launch_processes([](Rank& rank) {
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    std::vector<double> data(1200, 1.0);
    std::array<std::byte, 16> staging{};
    rank.communicator.set_staging(staging);
    if (rank.communicator.world() > 1) {
      CHECK_THROWS_WITH(
          rank.communicator.all_reduce(*stream, {"step", ""}, data.data(), data.data(), 1200, Dtype::fp64),
          Catch::Contains("needs 9600 bytes of staging") && Catch::Contains("gave 16"));
    }
    rank.communicator.barrier(*stream, {"test", ""});  // and the communicator still works
  });
  CHECK(status == 0);
}

TEST_CASE("reductions in many chunks are exact") {
  int const status = launch_processes([](Rank& rank) {
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    // 8 MiB of staging hold a part of this; the count leaves a remainder that fits no slice.
    std::int64_t const count = (std::int64_t{5} << 20) + 3;
    int const world = rank.communicator.world();
    std::vector<std::int32_t> data(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      data[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * (rank.communicator.rank() + 1));
    }
    rank.communicator.all_reduce(*stream, {"test", "large"}, data.data(), data.data(), count, Dtype::int32);
    stream->synchronize();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      wrong += data[static_cast<std::size_t>(i)] == static_cast<std::int32_t>(i * (world * (world + 1) / 2)) ? 0 : 1;
    }
    CHECK(wrong == 0);
  });
  CHECK(status == 0);
}

TEST_CASE("a process launches several jobs one after another") {
  for (int job_number = 0; job_number < 3; ++job_number) {
    int ran = 0;
    int const status = launch({.thread_ranks = 7, .transport = testing::process_transport()}, [&ran](Job& job) {
      ++ran;
      CHECK(job.communicator().transport() == testing::process_transport());
      CHECK(job.rank() == job.communicator().rank());
      CHECK(job.world() == job.communicator().world());
      CHECK(job.local_rank() == job.rank());  // all on one machine
    });
    CHECK(status == 0);
    CHECK(ran == 1);
  }
}

}  // namespace
}  // namespace zeroth::comm::conformance
