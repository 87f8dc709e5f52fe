// SPDX-License-Identifier: Apache-2.0
#include "comm/store/rendezvous.hpp"

#include <atomic>
#include <numeric>
#include <thread>

#include "comm/store_ranks.hpp"
#include "support/catch.hpp"
#include "support/reserved_port.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;
using Catch::StartsWith;

template <class F>
std::vector<std::string> among_ranks(
    int world, F const& body, std::function<void(RendezvousOptions&)> const& change = [](RendezvousOptions&) {}) {
  std::vector<std::string> outcomes(static_cast<std::size_t>(world));
  std::vector<std::thread> threads;
  testing::ReservedPort const port;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[static_cast<std::size_t>(rank)] = outcome_of([&] {
        RendezvousOptions options;
        options.at = {"127.0.0.1", port.number(), "this test", "token"};
        options.rank = rank;
        options.world = world;
        options.device = "bus " + std::to_string(rank);
        options.join_timeout = patience;
        options.heartbeat_timeout = patience;
        change(options);
        Rendezvous rendezvous{options};
        return body(rendezvous);
      });
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  return outcomes;
}

TEST_CASE("an id is created once and shared by all ranks, and by those of a split") {
  std::atomic<int> made{0};
  auto const outcomes = among_ranks(4, [&made](Rendezvous& rendezvous) {
    auto const make = [&made] {
      int const number = ++made;
      std::string id(128, '\0');  // as long as NCCL's
      std::iota(id.begin(), id.end(), static_cast<char>(number));
      return id;
    };
    int const rank = rendezvous.store().rank();
    auto const world = rendezvous.share("world", 0, make, patience);
    auto const again = rendezvous.share("world", 3, make, patience);
    auto const part = rendezvous.share("split color " + std::to_string(rank % 2), rank % 2, make, patience);
    return world + again + part;
  });
  CHECK(made == 4);
  auto const piece = [&](std::size_t rank, std::size_t i) { return outcomes[rank].substr(128 * i, 128); };
  for (std::size_t rank = 0; rank < 4; ++rank) {
    REQUIRE(outcomes[rank].size() == 3 * 128);
    CHECK(piece(rank, 0) == piece(0, 0));
    CHECK(piece(rank, 1) == piece(0, 1));
    CHECK(piece(rank, 2) == piece(rank % 2, 2));
  }
  CHECK(piece(0, 0) != piece(0, 1));
  CHECK(piece(0, 2) != piece(1, 2));
}

TEST_CASE("a root that fails to create an id ends the ranks that wait for it") {
  auto const outcomes = among_ranks(3, [](Rendezvous& rendezvous) {
    return rendezvous.share(
        "world", 1, []() -> std::string { throw std::runtime_error{"no NCCL"}; }, patience);
  });
  CHECK(outcomes[1] == "exception: no NCCL");
  CHECK(outcomes[0] == "PeerError: rank 1 was ended by an exception");
  CHECK(outcomes[2] == outcomes[0]);
}

std::string meet(Rendezvous& /*rendezvous*/) { return "met"; }

TEST_CASE("ranks on devices of their own meet") {
  CHECK(among_ranks(3, meet) == std::vector<std::string>{"met", "met", "met"});
}

TEST_CASE("two ranks on one device are refused on all ranks") {
  auto const outcomes =
      among_ranks(3, meet, [](RendezvousOptions& options) { options.device = options.rank == 0 ? "bus 0" : "bus 1"; });
  for (auto const& outcome : outcomes) {
    CHECK_THAT(outcome, StartsWith("ConfigError: ranks 1, 2 would all compute on GPU bus 1 of "));
  }
}

TEST_CASE("a rank that cannot take part tells all ranks why") {
  int const unable = GENERATE(0, 2);
  auto const outcomes = among_ranks(3, meet, [unable](RendezvousOptions& options) {
    options.problem = options.rank == unable ? std::string(5000, '.') + "no driver" : "";
  });
  for (auto const& outcome : outcomes) {
    CHECK_THAT(outcome, StartsWith("ConfigError: rank " + std::to_string(unable) + " on ") &&
                            Contains(" cannot take part: ...."));
  }
}

TEST_CASE("ranks that do not join are named to those that did") {
  auto const outcomes = among_ranks(3, meet, [](RendezvousOptions& options) {
    if (options.rank == 1) {  // its timeout ends the wait of both
      options.join_timeout = std::chrono::milliseconds{1500};
    }
    if (options.rank == 2) {
      throw std::runtime_error{"stays at home"};
    }
  });
  for (std::size_t const rank : {0U, 1U}) {
    CHECK_THAT(outcomes[rank], Contains("the gather 'zeroth ranks' waited") && Contains("2 (has not joined)"));
  }
}

}  // namespace
}  // namespace zeroth::comm
