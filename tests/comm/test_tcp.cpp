// SPDX-License-Identifier: Apache-2.0
// Ranks are threads, each with a session, sockets and a store of its own: what processes have, without the processes.
#include <array>
#include <cstdint>
#include <vector>

#include "comm/tcp_ranks.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace zeroth::comm::conformance {
namespace {

WithinMachine either_way() { return GENERATE(WithinMachine::memory, WithinMachine::network); }
char const* name_of(WithinMachine within) { return within == WithinMachine::memory ? "memory" : "network"; }

TEST_CASE("the tcp communicator conforms, by each other's memory and over the network") {
  auto const within = either_way();
  int const world = testing::sanitized ? GENERATE(1, 3) : GENERATE(1, 2, 3, 4);
  bool const check = world != 2;
  auto const problems = run_tcp_ranks(world, within, [&](Rank& rank) {
    std::vector<std::byte> staging(
        static_cast<std::size_t>(staging_bytes(Transport::tcp, world, Dtype::fp64, largest_count)));
    rank.communicator.set_staging(staging);
    rank.communicator.set_options({std::chrono::minutes{3}, check});
    std::string all;
    for (auto const& each : conformance_cases()) {
      if (auto const problem = problem_of(each, rank); !problem.empty()) {
        all += each.name + ": " + problem + "\n";
      }
    }
    rank.communicator.set_staging({});
    return all;
  });
  for (auto const& problem : problems) {
    CAPTURE(name_of(within), world);
    CHECK(problem == "");
  }
}

TEST_CASE("faults end every rank over tcp, and name who is missing or did something else") {
  auto const within = either_way();
  int const world = GENERATE(2, 3);
  for (auto const& each : fault_cases()) {
    auto const problems =
        run_tcp_ranks(world, within, [&](Rank& rank) { return problem_of(each, rank); }, {.check = true});
    for (auto const& problem : problems) {
      CAPTURE(name_of(within), world, each.name);
      CHECK(problem == "");
    }
  }
}

TEST_CASE("reductions in many chunks are exact over tcp") {
  auto const within = either_way();
  constexpr int world = 3;
  // 8 MiB of staging hold a part of this; the count leaves a tail that no slice takes.
  constexpr std::int64_t count = (std::int64_t{3} << 20) + 2;
  auto const wrong = run_tcp_ranks(world, within, [&](Rank& rank) {
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    std::vector<std::int32_t> data(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      data[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * (rank.communicator.rank() + 1));
    }
    rank.communicator.all_reduce(*stream, {"test", "large"}, data.data(), data.data(), count, Dtype::int32);
    stream->synchronize();
    std::int64_t differing = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      differing += data[static_cast<std::size_t>(i)] == static_cast<std::int32_t>(i * 6) ? 0 : 1;
    }
    return differing == 0 ? std::string{} : std::to_string(differing);
  });
  for (auto const& problem : wrong) {
    CAPTURE(name_of(within));
    CHECK(problem == "");
  }
}

}  // namespace
}  // namespace zeroth::comm::conformance
