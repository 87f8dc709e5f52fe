// SPDX-License-Identifier: Apache-2.0
// The store among threads of one process.
#include "comm/store/store.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <optional>

#include "comm/store/frame.hpp"
#include "comm/store_ranks.hpp"
#include "support/catch.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("all ranks get a value that one rank sets, whoever comes first") {
  int const world = GENERATE(1, 2, 3, 8);
  std::string id(128, '\0');
  std::iota(id.begin(), id.end(), '\x01');  // any bytes
  auto const outcomes = among_stores(world, [&](Store& store) {
    auto const name = "id of rank " + std::to_string(store.world() - 1);
    if (store.rank() == store.world() - 1) {
      store.set(name, id);
      store.set("empty", "");
    }
    auto const got = store.get(name, patience) + store.get("empty", patience);
    static_cast<void>(store.gather("all came", "", patience));  // rank 0's store only waits for ranks that have joined
    return got;
  });
  for (auto const& outcome : outcomes) {
    CHECK(outcome == id);
  }
}

TEST_CASE("a gather gives every rank all values in rank order, any number of times") {
  int const world = GENERATE(1, 2, 5);
  constexpr int rounds = 20;
  auto const outcomes = among_stores(world, [](Store& store) {
    std::string all;
    for (int round = 0; round < rounds; ++round) {
      auto const mine = std::to_string(store.rank()) + "." + std::to_string(round);
      all += joined(store.gather("round", mine, patience));
      all += joined(store.gather("barrier", "", patience));
    }
    return all;
  });
  std::string expected;
  for (int round = 0; round < rounds; ++round) {
    for (int rank = 0; rank < world; ++rank) {
      expected += std::to_string(rank) + "." + std::to_string(round) + "|";
    }
    expected += std::string(static_cast<std::size_t>(world), '|');
  }
  for (auto const& outcome : outcomes) {
    CHECK(outcome == expected);
  }
}

TEST_CASE("64 ranks meet with values of the largest size, and an abort reaches all of them") {
  constexpr int world = 64;
  std::atomic<int> handled{0};
  auto const outcomes = among_stores(
      world,
      [](Store& store) {
        std::string const mine(most_value_bytes, static_cast<char>('0' + store.rank()));
        auto const all = store.gather("values", mine, patience);
        bool right = all.size() == world;
        for (int rank = 0; rank < world && right; ++rank) {
          right = all[static_cast<std::size_t>(rank)] == std::string(most_value_bytes, static_cast<char>('0' + rank));
        }
        if (store.rank() == 41) {
          store.abort("rank 41 failed: it was told to");
        }
        auto const end = outcome_of([&] { return store.get("never", patience); });
        auto const failure = store.failure();
        return (right ? "right, " : "wrong, ") + end + ", " + std::to_string(failure ? failure->origin : -1);
      },
      [&handled](StoreOptions& options) {
        options.on_failure = [&handled](JobFailure const& failure) {
          handled += failure.origin == 41 && failure.reason == "rank 41 failed: it was told to" ? 1 : 1000;
        };
      });
  for (auto const& outcome : outcomes) {
    CHECK(outcome == "right, PeerError: rank 41 failed: it was told to, 41");
  }
  CHECK(handled == world);
}

TEST_CASE("several threads of a rank call at once") {
  auto const outcomes = among_stores(2, [](Store& store) {
    std::array<std::string, 8> got;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < got.size(); ++i) {
      threads.emplace_back([&, i] {
        auto const name = std::to_string(i);
        got[i] = outcome_of([&] {
          if (store.rank() == static_cast<int>(i % 2)) {
            store.set(name, "value " + name);
          }
          return store.get(name, patience) + joined(store.gather(name, name, patience));
        });
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    return std::accumulate(got.begin(), got.end(), std::string{});
  });
  std::string expected;
  for (int i = 0; i < 8; ++i) {
    auto const name = std::to_string(i);
    expected += "value " + name + name + "|" + name + "|";
  }
  CHECK(outcomes[0] == expected);
  CHECK(outcomes[1] == expected);
}

TEST_CASE("a rank that waits too long learns for which rank, and may try again") {
  Counter timed_out;
  auto const outcomes = among_stores(3, [&timed_out](Store& store) {
    std::string got;
    if (store.rank() == 1) {
      got = outcome_of([&] { return joined(store.gather("all", "", milliseconds{50})); }) + "; " +
            outcome_of([&] { return store.get("key", milliseconds{50}); }) + "; ";
      timed_out.add();
    } else {
      timed_out.wait_for(1);
    }
    if (store.rank() == 2) {
      store.set("key", "value");
    }
    return got + joined(store.gather("all", std::to_string(store.rank()), patience)) + store.get("key", patience);
  });
  CHECK(outcomes[0] == "0|1|2|value");
  CHECK(outcomes[2] == "0|1|2|value");
  CHECK_THAT(outcomes[1], StartsWith("LateError: the gather 'all' waited ") && Contains(" for ranks 0") &&
                              Contains("2") && Contains("no rank set the key 'key' within ") &&
                              Catch::EndsWith("; 0|1|2|value"));
}

TEST_CASE("a rank that has not joined is named, and one that joins late completes the gather") {
  Store rank0{rank_options(0, 3, 0)};
  Store rank1{rank_options(1, 3, rank0.port())};
  auto const early = outcome_of([&] { return joined(rank1.gather("all", "one", milliseconds{30})); });
  CHECK_THAT(early, StartsWith("LateError: ") && Contains("ranks 0 and 2 (has not joined)"));
  CHECK_THAT(outcome_of([&] { return rank1.get("key", milliseconds{30}); }),
             StartsWith("LateError: no rank set the key 'key'") && Contains("absent: rank 2 (has not joined)"));
  std::array<std::string, 3> got;
  std::thread first{[&] { got[0] = outcome_of([&] { return joined(rank0.gather("all", "0", patience)); }); }};
  std::thread second{[&] { got[1] = outcome_of([&] { return joined(rank1.gather("all", "1", patience)); }); }};
  std::this_thread::sleep_for(milliseconds{50});
  Store rank2{rank_options(2, 3, rank0.port())};
  got[2] = joined(rank2.gather("all", "2", patience));
  first.join();
  second.join();
  CHECK(got == std::array<std::string, 3>{"0|1|2|", "0|1|2|", "0|1|2|"});
  CHECK_FALSE(rank0.failure().has_value());
}

TEST_CASE("wrong uses are refused, and the job goes on") {
  auto const outcomes = among_stores(2, [](Store& store) {
    if (store.rank() == 1) {
      store.gather("begin", "", patience);
      return store.get("key", patience);
    }
    std::string got;
    store.set("key", "first");
    for (auto const& wrong : std::vector<std::function<void()>>{
             [&] { store.set("key", "second"); },
             [&] { store.set("", "value"); },
             [&] { store.set(std::string(257, 'k'), "value"); },
             [&] { store.set("long", std::string(4097, 'v')); },
             [&] { (void)store.gather("long", std::string(4097, 'v'), patience); },
         }) {
      got += outcome_of([&] {
        wrong();
        return std::string{"nothing was thrown"};
      });
      got += '\n';
    }
    std::string inner;
    std::thread other{[&] { inner = outcome_of([&] { return joined(store.gather("begin", "", patience)); }); }};
    other.join();
    return got + inner;
  });
  CHECK_THAT(outcomes[0], Contains("ContractError: rank 0 sets the key 'key', which rank 0 has set already") &&
                              Contains("a key of 0 bytes: allowed are 1 to 256") &&
                              Contains("a key of 257 bytes: allowed are 1 to 256") &&
                              Contains("the value for 'long' has 4097 bytes: allowed are 4096") &&
                              !Contains("nothing was thrown") && Catch::EndsWith("||"));
  CHECK(outcomes[1] == "first");
}

TEST_CASE("one rank cannot be twice in one gather") {
  Store rank0{rank_options(0, 2, 0)};
  Store rank1{rank_options(1, 2, rank0.port())};
  std::array<std::string, 2> got;
  Counter ended;
  std::vector<std::thread> threads;
  for (auto& each : got) {
    threads.emplace_back([&] {
      each = outcome_of([&] { return joined(rank1.gather("all", "1", patience)); });
      ended.add();
    });
  }
  ended.wait_for(1);  // the second one
  CHECK(joined(rank0.gather("all", "0", patience)) == "0|1|");
  for (auto& thread : threads) {
    thread.join();
  }
  std::sort(got.begin(), got.end());
  CHECK(got[0] == "0|1|");
  CHECK_THAT(got[1], StartsWith("ContractError: rank 1 joins the gather 'all' twice"));
}

TEST_CASE("a rank that leaves is missing in gathers, but fails nothing else") {
  Store rank0{rank_options(0, 2, 0)};
  std::string early;
  {
    std::optional<Store> rank1;
    rank1.emplace(rank_options(1, 2, rank0.port()));
    std::thread waiting{[&] { early = outcome_of([&] { return joined(rank0.gather("all", "0", patience)); }); }};
    std::this_thread::sleep_for(milliseconds{50});
    rank1.reset();
    waiting.join();
  }
  CHECK(early == "PeerError: the gather 'all' needs rank 1 (has left)");
  CHECK(outcome_of([&] { return joined(rank0.gather("all", "0", patience)); }) == early);
  CHECK_FALSE(rank0.failure().has_value());
  CHECK_THAT(outcome_of([&] { return std::to_string(Store{rank_options(1, 2, rank0.port())}.rank()); }),
             StartsWith("ConfigError: ") && Contains("rank 1 on ") && Contains("has joined and left already"));
}

TEST_CASE("rank 0 waits for the others before it leaves, but only for a limited time") {
  std::optional<Store> rank0;
  auto options = rank_options(0, 2, 0);
  options.leave_timeout = milliseconds{50};
  rank0.emplace(options);
  Store rank1{rank_options(1, 2, rank0->port())};
  rank1.set("key", "value");
  auto const place = "127.0.0.1:" + std::to_string(rank0->port());
  rank0.reset();
  CHECK(outcome_of([&] { return rank1.get("key", patience); }) ==
        "PeerError: rank 0 (" + place + ") has left the job, and its store is closed");
  CHECK_FALSE(rank1.failure().has_value());
  rank1.abort("nobody is left to tell");
  REQUIRE(rank1.failure().has_value());
  CHECK(rank1.failure()->origin == 1);
}

TEST_CASE("an exception that unwinds a store fails the job") {
  int const thrower = GENERATE(0, 1);
  auto const outcomes = among_stores(3, [thrower](Store& store) -> std::string {
    store.gather("all", "", patience);
    if (store.rank() == thrower) {
      throw std::runtime_error{"out of luck"};
    }
    return store.get("never", patience);
  });
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(outcomes[static_cast<std::size_t>(rank)] ==
          (rank == thrower ? "exception: out of luck"
                           : "PeerError: rank " + std::to_string(thrower) + " was ended by an exception"));
  }
}

TEST_CASE("of two aborts, the same one counts on all ranks") {
  auto const outcomes = among_stores(4, [](Store& store) {
    store.gather("all", "", patience);
    if (store.rank() >= 2) {
      store.abort("reason of rank " + std::to_string(store.rank()));
    }
    return outcome_of([&] { return store.get("never", patience); });
  });
  for (auto const& outcome : outcomes) {
    CHECK(outcome == outcomes[0]);
    CHECK_THAT(outcome, StartsWith("PeerError: reason of rank "));
  }
}

TEST_CASE("a rank that joins after a failure is told the reason") {
  Store rank0{rank_options(0, 2, 0)};
  rank0.abort("rank 0 failed: no disk");
  CHECK_THAT(outcome_of([&] { return std::to_string(Store{rank_options(1, 2, rank0.port())}.rank()); }),
             StartsWith("PeerError: rank 0's store at 127.0.0.1:") && Contains("no disk"));
}

TEST_CASE("a failure handler may not wait, and its exceptions are caught") {
  std::optional<Store> rank0;
  std::string inside;
  Counter handled;
  auto options = rank_options(0, 1, 0);
  options.on_failure = [&](JobFailure const&) {
    inside = outcome_of([&] { return rank0->get("key", patience); });
    handled.add();
    throw std::runtime_error{"from the handler"};
  };
  rank0.emplace(options);
  rank0->abort("the end");
  handled.wait_for(1);
  CHECK_THAT(inside, StartsWith("ContractError: ") && Contains("may only look at failure()"));
}

std::ptrdiff_t count_in(char const* folder) {
  return std::distance(std::filesystem::directory_iterator{folder}, std::filesystem::directory_iterator{});
}

TEST_CASE("a store leaks neither threads nor descriptors") {
  (void)among_stores(2, [](Store& store) { return store.gather("all", "", patience).front(); });
  auto const threads = count_in("/proc/self/task");
  auto const descriptors = count_in("/proc/self/fd");
  for (int round = 0; round < 3; ++round) {
    (void)among_stores(4, [](Store& store) -> std::string {
      store.gather("all", "", patience);
      if (store.rank() == 2) {
        throw std::runtime_error{"once more"};
      }
      return store.get("never", patience);
    });
  }
  auto const deadline = Clock::now() + patience;  // a joined thread may stay visible for a moment
  while (count_in("/proc/self/task") != threads && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds{10});
  }
  CHECK(count_in("/proc/self/task") == threads);
  CHECK(count_in("/proc/self/fd") == descriptors);
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST_CASE("an idle store sleeps") {
  auto const outcomes = among_stores(4, [](Store& store) {
    store.gather("all", "", patience);
    double const before = processor_seconds();
    std::this_thread::sleep_for(milliseconds{400});
    bool const slept = processor_seconds() - before < 0.2;  // one thread that spins takes twice that
    store.gather("all", "", patience);
    return std::string{slept ? "slept" : "was busy"};
  });
  for (auto const& outcome : outcomes) {
    CHECK(outcome == "slept");
  }
}

TEST_CASE("heartbeats keep ranks that only wait in the job") {
  auto const outcomes = among_stores(
      3,
      [](Store& store) {
        std::this_thread::sleep_for(milliseconds{2500});
        return joined(store.gather("all", "", patience));
      },
      [](StoreOptions& options) { options.heartbeat_timeout = milliseconds{1000}; });
  for (auto const& outcome : outcomes) {
    CHECK(outcome == "|||");
  }
}

}  // namespace
}  // namespace zeroth::comm
