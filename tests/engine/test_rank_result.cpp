// SPDX-License-Identifier: Apache-2.0
#include "engine/rank_result.hpp"

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/job.hpp"
#include "zeroth/checkpoint/record.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::testing {
namespace {

using engine::RankResult;
using Kind = RankResult::Kind;

/// The results of all ranks, which must be the same on each.
std::vector<RankResult> heard(std::vector<RankResult> const& said) {
  auto const world = static_cast<int>(said.size());
  std::vector<std::vector<RankResult>> by_rank(said.size());
  auto const outcome = run_job(world, [&](Job& job) {
    auto const rank = static_cast<std::size_t>(job.rank());
    auto const device = device::make_cpu_device();
    auto const stream = device->make_stream("test", device::Overlap::off);
    by_rank[rank] = engine::gather_results(said[rank], "test", {&job.communicator(), device.get(), stream.get()});
  });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& each : by_rank) {
    REQUIRE(each.size() == said.size());
    for (std::size_t rank = 0; rank < said.size(); ++rank) {
      REQUIRE(each[rank].kind == said[rank].kind);
      REQUIRE(each[rank].text == said[rank].text);
      REQUIRE(each[rank].job_rank == static_cast<int>(rank));
    }
  }
  return by_rank.front();
}

template <class Error>
std::string thrown(std::vector<RankResult> const& said) {
  try {
    engine::throw_if_failed("it failed", heard(said));
  } catch (Error const& error) {
    return error.what();
  }
  return "nothing of this type";
}

TEST_CASE("all ranks get the result of each rank, also one without text") {
  CHECK_NOTHROW(engine::throw_if_failed("it failed", heard({{}, {}, {}})));
  CHECK_NOTHROW(engine::throw_if_failed("it failed", heard({{}, {.kind = Kind::warning, .text = "slow"}})));
  CHECK(thrown<ContractError>({{}, {.kind = Kind::contract_error, .text = ""}}) == "it failed: rank 1: ");
  CHECK(thrown<SystemError>({{}, {.kind = Kind::system_error, .text = "no disk"}, {}}) == "it failed: rank 1: no disk");
  CHECK(thrown<SystemError>({{.kind = Kind::system_error, .text = "no disk"},
                             {.kind = Kind::system_error, .text = "no disk"}}) == "it failed: no disk");
}

TEST_CASE("ranks throw DamagedError only if none has failed for another reason") {
  RankResult const damage{.kind = Kind::damage, .text = "a hash"};
  CHECK(thrown<DamagedError>({damage, {}, damage}) == "it failed: rank 0 (and 1 more): a hash");
  CHECK(thrown<SystemError>({damage, {.kind = Kind::system_error, .text = "no disk"}}) ==
        "it failed: rank 1 (and 1 more): no disk");
}

}  // namespace
}  // namespace zeroth::testing
