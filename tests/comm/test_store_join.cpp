// SPDX-License-Identifier: Apache-2.0
// How ranks find rank 0's store.
#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <optional>

#include "comm/store/socket.hpp"
#include "comm/store/store.hpp"
#include "comm/store/store_join.hpp"
#include "comm/store_ranks.hpp"
#include "support/catch.hpp"
#include "support/reserved_port.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using std::chrono::milliseconds;

TEST_CASE("ranks join a store that starts listening later") {
  testing::ReservedPort const reserved;
  int const port = reserved.number();
  std::string got;
  std::thread early{[&] {
    got = outcome_of([&] {
      Store rank1{rank_options(1, 2, port)};
      return joined(rank1.gather("all", "1", patience));
    });
  }};
  std::this_thread::sleep_for(milliseconds{100});
  {
    Store rank0{rank_options(0, 2, port)};
    CHECK(joined(rank0.gather("all", "0", patience)) == "0|1|");
  }
  early.join();
  CHECK(got == "0|1|");
}

TEST_CASE("pauses between attempts grow to a second") {
  std::vector<milliseconds::rep> pauses;
  for (milliseconds pause{0}; pauses.size() < 9; pauses.push_back(pause.count())) {
    pause = pause_after(pause);
  }
  CHECK(pauses == std::vector<milliseconds::rep>{10, 20, 40, 80, 160, 320, 640, 1000, 1000});
}

TEST_CASE("a rank that finds no store tries less and less often") {
  int error = 0;
  auto const busy = listen_at("127.0.0.1", 0, error);
  REQUIRE(busy);
  auto options = rank_options(1, 2, port_of(busy));
  options.join_timeout = milliseconds{1200};
  std::atomic<bool> ended{false};
  auto const begun = Clock::now();
  std::thread looking{[&] {
    static_cast<void>(outcome_of([&] { return std::to_string(Store{options}.rank()); }));
    ended = true;
  }};
  int attempts = 0;
  while (!ended) {
    if (await_socket(busy, POLLIN, Clock::now() + milliseconds{10})) {
      attempts += accept_from(busy, error) ? 1 : 0;  // and closes it at once
    }
  }
  looking.join();
  CHECK(attempts >= 2);
  CHECK(attempts <= 8);  // at 0, 10, 30, 70, 150, 310, 630 and 1100 ms, if each takes no time
  CHECK(Clock::now() - begun >= options.join_timeout - milliseconds{100});
}

TEST_CASE("a server that accepts and says nothing does not use up the whole timeout") {
  int error = 0;
  auto silent = std::make_unique<Descriptor>(listen_at("127.0.0.1", 0, error));
  REQUIRE(*silent);
  int const port = port_of(*silent);
  std::string got;
  std::thread early{[&] {
    got = outcome_of([&] {
      auto options = rank_options(1, 2, port);
      options.answer_timeout = milliseconds{2000};  // which rank 0 easily meets
      Store rank1{options};
      return joined(rank1.gather("all", "1", patience));
    });
  }};
  REQUIRE(await_socket(*silent, POLLIN, Clock::now() + patience));  // it has connected
  auto const taken = accept_from(*silent, error);
  silent.reset();
  Store rank0{rank_options(0, 2, port)};
  CHECK(joined(rank0.gather("all", "0", patience)) == "0|1|");
  early.join();
  CHECK(got == "0|1|");
}

TEST_CASE("invalid options are rejected") {
  auto const error_of = [](auto const& change) {
    auto options = rank_options(0, 2, 0);
    change(options);
    return outcome_of([&] { return std::to_string(Store{options}.rank()); });
  };
  CHECK_THAT(error_of([](auto& o) { o.rank = 2; }), Contains("ContractError") && Contains("the rank is 2 of 2 ranks"));
  CHECK_THAT(error_of([](auto& o) { o.world = 0; }), Contains("the rank is 0 of 0 ranks"));
  CHECK_THAT(error_of([](auto& o) { o.at.host = ""; }), Contains("the host is ''"));
  CHECK_THAT(error_of([](auto& o) { o.at.port = 65536; }), Contains("port 65536"));
  CHECK_THAT(error_of([](auto& o) { o.rank = 1; }), Contains("port 0"));
  CHECK_THAT(error_of([](auto& o) { o.at.token = std::string(257, 't'); }), Contains("257 bytes; allowed: up to 256"));
  CHECK_THAT(error_of([](auto& o) { o.heartbeat_timeout = milliseconds{0}; }), Contains("heartbeat_timeout is 0 ms"));
  CHECK_THAT(error_of([](auto& o) { o.heartbeat_timeout = milliseconds{600'001}; }),
             Contains("heartbeat_timeout is 600001 ms; allowed: 10 to 600000"));
  CHECK_THAT(error_of([](auto& o) { o.world = 1 << 30; }),
             Contains("SystemError") && Contains("1073741824 ranks") && Contains("ulimit -n"));
}

TEST_CASE("the error about a used port names it, and says what to do") {
  Store const first{rank_options(0, 2, 0)};
  auto options = rank_options(0, 2, first.port());
  options.at.given_by = "MASTER_PORT=" + std::to_string(first.port());
  CHECK_THAT(outcome_of([&] { return std::to_string(Store{options}.rank()); }),
             StartsWith("SystemError: rank 0's store cannot listen at port " + std::to_string(first.port())) &&
                 Contains("(MASTER_PORT=") && Contains("Address already in use") && Contains("another port"));
}

TEST_CASE("a job whose port is used by another job uses one of the next ports") {
  Store const other{rank_options(0, 2, 0)};
  auto const options = [&](int rank) {
    auto mine = rank_options(rank, 2, other.port());
    mine.at.token = "the job beside it";
    mine.at.ports = std::min(100, 65536 - other.port());
    return mine;
  };
  std::string got;
  int port = 0;
  std::thread early{[&] {
    got = outcome_of([&] {
      Store rank1{options(1)};
      port = rank1.port();
      return joined(rank1.gather("all", "1", patience));
    });
  }};
  {
    Store rank0{options(0)};
    CHECK(rank0.port() > other.port());
    CHECK(joined(rank0.gather("all", "0", patience)) == "0|1|");
    early.join();
    CHECK(port == rank0.port());
  }
  CHECK(got == "0|1|");
}

TEST_CASE("a rank that tried several ports reports what it found at each") {
  Store const other{rank_options(0, 2, 0)};
  auto options = rank_options(1, 2, other.port());
  options.at.token = "the job beside it";
  options.at.ports = 2;
  options.join_timeout = milliseconds{300};
  CHECK_THAT(outcome_of([&] { return std::to_string(Store{options}.rank()); }),
             StartsWith("PeerError: ") && Contains("or one of the next 1 ports") &&
                 Contains("job token differs from that job's"));
  options.at.port = 65535;
  CHECK_THAT(outcome_of([&] { return std::to_string(Store{options}.rank()); }), StartsWith("ContractError: "));
}

TEST_CASE("a rank that finds no store reports where it looked, and why it failed") {
  testing::ReservedPort const reserved;
  int const port = reserved.number();
  auto options = rank_options(1, 2, port);
  options.join_timeout = milliseconds{100};
  options.at.given_by = "MASTER_ADDR=x";
  auto const refused = outcome_of([&] { return std::to_string(Store{options}.rank()); });
  CHECK_THAT(refused, StartsWith("PeerError: rank 1 of 2 did not find rank 0's store at 127.0.0.1:") &&
                          Contains("(MASTER_ADDR=x)") && Contains("Connection refused"));
  options.at.host = std::string(70, 'x') + ".invalid";  // no name server is asked for a label of that length
  auto const unresolved = outcome_of([&] { return std::to_string(Store{options}.rank()); });
  CHECK_THAT(unresolved, Contains(options.at.host + ":" + std::to_string(port)) && Contains("cannot be resolved"));
}

TEST_CASE("the store works over IPv6, if this machine has it, and with host names") {
  std::string const host = GENERATE("::1", "localhost");
  auto options = rank_options(0, 2, 0);
  options.at.host = host;
  std::optional<Store> rank0;
  auto const error = outcome_of([&] {
    rank0.emplace(options);
    return std::string{};
  });
  if (!error.empty()) {
    REQUIRE(host == "::1");
    WARN("no IPv6 here: " << error);
    return;
  }
  auto other = rank_options(1, 2, rank0->port());
  other.at.host = host;
  Store rank1{other};
  rank0->set("key", host);
  CHECK(rank1.get("key", patience) == host);
}

TEST_CASE("the store listens on every interface unless the host is a loopback address") {
  auto options = rank_options(0, 3, 0);
  options.at.host = "0.0.0.0";
  Store rank0{options};
  Store const rank1{rank_options(1, 3, rank0.port())};
  auto other = rank_options(2, 3, rank0.port());
  other.at.host = "localhost";
  Store rank2{other};
  rank0.set("key", "value");
  CHECK(rank2.get("key", patience) == "value");
}

TEST_CASE("signals that arrive while a rank looks for rank 0 do no harm") {
  struct sigaction handler {};
  struct sigaction before {};
  handler.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &handler, &before);  // without SA_RESTART: calls return early
  testing::ReservedPort const reserved;
  int const port = reserved.number();
  std::string got;
  std::atomic<bool> ended{false};
  std::thread looking{[&] {
    got = outcome_of([&] {
      Store rank1{rank_options(1, 2, port)};
      return joined(rank1.gather("all", "1", patience));
    });
    ended = true;
  }};
  std::string other;
  std::thread listening{[&] {
    std::this_thread::sleep_for(milliseconds{100});
    other = outcome_of([&] {
      Store rank0{rank_options(0, 2, port)};
      std::this_thread::sleep_for(milliseconds{100});
      return joined(rank0.gather("all", "0", patience));
    });
  }};
  while (!ended) {
    ::pthread_kill(looking.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(milliseconds{1});
  }
  looking.join();
  listening.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  CHECK(got == "0|1|");
  CHECK(other == "0|1|");
}

}  // namespace
}  // namespace zeroth::comm
