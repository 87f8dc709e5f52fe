// SPDX-License-Identifier: Apache-2.0
// The conclusions of rank 0's store, with poll()'s results given by hand.
#include "comm/store/store_server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "comm/store/socket.hpp"
#include "support/catch.hpp"
#include "support/log.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds patience{30};
constexpr milliseconds timeout{2'000};

/// A store for ranks 0 (this process), 1 and 2, whose thread is the test.
class ThreeRanks {
 public:
  ThreeRanks() : server_{listen(), {"token", 3, timeout}} {
    auto [mine, its] = socket_pair();
    server_.adopt(std::move(its), "here");
    ranks_.emplace_back(std::move(mine), most_answer_bytes(3));
    for (int rank = 1; rank < 3; ++rank) {
      ranks_.emplace_back(connect_to("127.0.0.1", port_, Clock::now() + patience).socket, most_answer_bytes(3));
      serve();  // accepts
      say(rank, Kind::hello, encode(Hello{.token = "token", .rank = rank, .world = 3, .host = "here"}));
      serve();
      REQUIRE(hear(rank, Kind::welcome));
    }
  }

  void say(int rank, Kind kind, std::string body) { of(rank).send(kind, 0, std::move(body)); }
  void say_unheard(int rank) { say(rank, Kind::unheard, Body{}.text("nothing comes").take()); }
  void say_beat(int rank) { say(rank, Kind::beat, Body{}.number(0).take()); }

  void serve() { serve_at(Clock::now(), std::nullopt); }
  /// Serves a poll() that ended at `now` and only reported `rank`, though other ranks may have sent something since.
  void serve_at(Clock::time_point now, std::optional<int> rank) {
    std::vector<pollfd> entries;
    server_.watch(entries);
    REQUIRE(::poll(entries.data(), entries.size(), 1000) >= 0);
    for (std::size_t i = 0; rank && i < entries.size(); ++i) {
      entries[i].revents = i == 1 + static_cast<std::size_t>(*rank) ? POLLIN : short{0};  // after the listener
    }
    server_.serve(entries, now);
  }
  /// Waits until the messages of `ranks` can be read.
  void let_it_come(std::vector<std::size_t> const& ranks) {
    auto const has_come = [&] {
      std::vector<pollfd> entries;
      server_.watch(entries);
      REQUIRE(::poll(entries.data(), entries.size(), 0) >= 0);
      return std::all_of(ranks.begin(), ranks.end(),
                         [&](std::size_t rank) { return (entries[1 + rank].revents & POLLIN) != 0; });
    };
    auto const deadline = Clock::now() + patience;
    while (!has_come()) {
      REQUIRE(Clock::now() < deadline);
      std::this_thread::sleep_for(milliseconds{1});
    }
  }

  /// The next message to `rank`, if it is of `kind`; otherwise nullopt.
  std::optional<Frame> hear(int rank, Kind kind) {
    auto& connection = of(rank);
    std::optional<Frame> frame;
    while (!(frame = connection.next()) && await_socket(connection.socket(), POLLIN, Clock::now() + patience) &&
           connection.receive()) {
    }
    return frame && frame->kind == kind ? frame : std::nullopt;
  }
  [[nodiscard]] bool is_deserted() const { return server_.is_deserted(); }

 private:
  Descriptor listen() {
    int error = 0;
    auto listener = listen_at("127.0.0.1", 0, error);
    REQUIRE(error == 0);
    port_ = port_of(listener);
    return listener;
  }
  Connection& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  int port_ = 0;
  StoreServer server_;
  std::vector<Connection> ranks_;
};

TEST_CASE("messages that arrived while rank 0 was frozen are read before a rank is reported") {
  SECTION("two ranks that receive nothing from it, of which poll() saw one") {
    ThreeRanks job;
    job.say_unheard(1);
    job.say_unheard(2);
    job.let_it_come({1, 2});
    job.serve_at(Clock::now(), 1);
    auto const told = job.hear(0, Kind::aborted);
    REQUIRE(told);
    CHECK_THAT(told->body, Contains("ranks 1 and 2 on here receive nothing from rank 0 on here"));
  }
  SECTION("one rank that was well, and one that was silent") {
    ThreeRanks job;
    job.say_beat(2);
    job.let_it_come({2});
    job.serve_at(Clock::now() + timeout, std::nullopt);
    auto const told = job.hear(0, Kind::aborted);
    REQUIRE(told);
    CHECK_THAT(told->body, Contains("rank 1 on here has sent nothing for "));
  }
  SECTION("both ranks were well") {
    ThreeRanks job;
    job.say_beat(1);
    job.say_beat(2);
    job.let_it_come({1, 2});
    job.serve_at(Clock::now() + timeout, 0);
    CHECK_FALSE(job.is_deserted());
  }
}

TEST_CASE("ranks that join late are logged once, while others wait") {
  int error = 0;
  testing::Log const log;
  StoreServer server{listen_at("127.0.0.1", 0, error), {"token", 3, timeout}};
  auto [mine, stores] = socket_pair();
  server.adopt(std::move(stores), "here");
  for (auto const after : {silence_before_log / 2, silence_before_log, 2 * silence_before_log}) {
    std::vector<pollfd> entries;
    server.watch(entries);
    server.serve(entries, Clock::now() + after);
    CHECK(log.count("still waits") == (after < silence_before_log ? 0 : 1));
  }
  CHECK_THAT(log.all(), Contains("rank 0 still waits for ranks 1 (has not joined) and 2 (has not joined)"));
}

TEST_CASE("silent connections are closed without a log line") {
  testing::Log const log;
  int error = 0;
  auto listener = listen_at("127.0.0.1", 0, error);
  int const port = port_of(listener);
  StoreServer server{std::move(listener), {"token", 2, timeout}};
  auto const serve_at = [&server](Clock::time_point now) {
    std::vector<pollfd> entries;
    server.watch(entries);
    static_cast<void>(::poll(entries.data(), entries.size(), 0));
    server.serve(entries, now);
  };
  std::vector<Descriptor> crowd;
  for (int i = 0; i < 10; ++i) {
    crowd.push_back(connect_to("127.0.0.1", port, Clock::now() + patience).socket);
  }
  REQUIRE(::send(crowd.back().get(), "zero", 4, MSG_NOSIGNAL) == 4);
  serve_at(Clock::now());  // accepts
  serve_at(Clock::now());  // reads
  for (auto const after : {seconds{4}, seconds{6}}) {
    serve_at(Clock::now() + after);
    for (auto const& each : crowd) {
      CHECK(await_socket(each, POLLIN, Clock::now()) == (after > seconds{5}));  // closed
    }
  }
  CHECK(log.count("it did not finish its handshake") == 1);
  CHECK_THAT(log.all(), !Contains("ended"));
}

TEST_CASE("a rank that has sent its handshake is accepted, however many connections follow") {
  int error = 0;
  auto listener = listen_at("127.0.0.1", 0, error);
  int const port = port_of(listener);
  StoreServer server{std::move(listener), {"token", 2, timeout}};
  auto const connect = [port] {
    return Connection{connect_to("127.0.0.1", port, Clock::now() + patience).socket, most_answer_bytes(2)};
  };
  auto rank = connect();
  rank.send(Kind::hello, 0, encode(Hello{.token = "token", .rank = 1, .world = 2, .host = "here"}));
  std::vector<Connection> others;
  for (std::size_t i = 0; i < most_pending_connections + 10; ++i) {
    others.push_back(connect());
  }
  std::vector<pollfd> entries;
  server.watch(entries);
  REQUIRE(::poll(entries.data(), entries.size(), 1000) == 1);
  server.serve(entries, Clock::now());  // accepts all of them, before it has read any
  std::optional<Frame> frame;
  while (!(frame = rank.next()) && await_socket(rank.socket(), POLLIN, Clock::now() + patience) && rank.receive()) {
  }
  REQUIRE(frame);
  CHECK(frame->kind == Kind::welcome);
}

}  // namespace
}  // namespace zeroth::comm
