// SPDX-License-Identifier: Apache-2.0
// Connections to rank 0's store, and to ranks, from programs that are not ranks of the job.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <random>

#include "comm/store/connection.hpp"
#include "comm/store/frame.hpp"
#include "comm/store/socket.hpp"
#include "comm/store_ranks.hpp"
#include "core/host_name.hpp"
#include "support/catch.hpp"
#include "support/log.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;
using zeroth::testing::Log;

/// A program that is not a rank.
class ForeignConnection {
 public:
  explicit ForeignConnection(int port) : socket_{connect_to("127.0.0.1", port, Clock::now() + patience).socket} {
    REQUIRE(static_cast<bool>(socket_));
  }
  void say(std::string_view bytes) {
    while (!bytes.empty()) {
      auto const sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) {
        return;  // the other side closed the connection, as the tests expect
      }
      bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
    }
  }
  void say(Kind kind, std::string const& body) {
    auto const head = encode(Head{static_cast<std::uint32_t>(body.size()), static_cast<std::uint8_t>(kind), 1});
    say(std::string{head.data(), head.size()} + body);
  }
  /// Everything up to the end of the connection; nullopt if it does not end.
  [[nodiscard]] std::optional<std::string> hear() {
    std::string all;
    while (await_socket(socket_, POLLIN, Clock::now() + patience)) {
      char buffer[4096];
      auto const bytes = ::recv(socket_.get(), buffer, sizeof buffer, 0);
      if (bytes <= 0) {
        return all;
      }
      all.append(buffer, static_cast<std::size_t>(bytes));
    }
    return std::nullopt;
  }
  /// One message.
  [[nodiscard]] Frame next() {
    Connection connection{std::move(socket_), most_answer_bytes(4)};
    while (await_socket(connection.socket(), POLLIN, Clock::now() + patience)) {
      bool const open = connection.receive();
      if (auto const frame = connection.next()) {
        return *frame;
      }
      if (!open) {
        break;
      }
    }
    return Frame{Kind::beat, 0, "the connection ended"};
  }

 private:
  Descriptor socket_;
};

/// Checks that the job still works, undisturbed by foreign connections.
void check_undisturbed(Store& rank0, Store& rank1) {
  static int round = 0;
  auto const key = "key " + std::to_string(++round);
  rank1.set(key, key);
  CHECK(rank0.get(key, patience) == key);
  CHECK_FALSE(rank0.failure().has_value());
  CHECK_FALSE(rank1.failure().has_value());
}

TEST_CASE("a connection with another token is rejected and logged, and disturbs no rank") {
  Log const log;
  Store rank0{rank_options(0, 3, 0)};
  Store rank1{rank_options(1, 3, rank0.port())};
  auto options = rank_options(2, 3, rank0.port());
  options.at.token = "a job of yesterday";
  auto const error = outcome_of([&] { return std::to_string(Store{options}.rank()); });
  CHECK_THAT(error, StartsWith("ConfigError: rank 0's store at 127.0.0.1:" + std::to_string(rank0.port())) &&
                        Contains("refused this process: this process's job token differs from that job's"));
  CHECK_THAT(error, !Contains("the job of this test") && !Contains("yesterday"));
  CHECK(log.has("[rank 0/3] the store refuses 127.0.0.1:"));
  CHECK_THAT(log.all(), Contains("its job token is not this job's") && !Contains("yesterday"));
  check_undisturbed(rank0, rank1);
  Store const rank2{rank_options(2, 3, rank0.port())};
}

TEST_CASE("another world size and a duplicate rank are rejected") {
  Log const log;
  Store rank0{rank_options(0, 3, 0)};
  Store rank1{rank_options(1, 3, rank0.port())};
  auto const error_of = [&](int rank, int world) {
    return outcome_of([&] { return std::to_string(Store{rank_options(rank, world, rank0.port())}.rank()); });
  };
  CHECK_THAT(error_of(2, 4),
             StartsWith("ConfigError: ") && Contains("its job has 3 ranks, and this process is rank 2 of 4"));
  CHECK_THAT(error_of(1, 3), StartsWith("ConfigError: ") && Contains("rank 1 on " + host_name()) &&
                                 Contains("has joined already: two processes were given the same rank"));
  CHECK_THAT(log.all(), Contains("it is rank 2 of 4, and this job has 3 ranks"));
  check_undisturbed(rank0, rank1);
}

TEST_CASE("another version of the protocol is rejected with both versions") {
  Log const log;
  Store rank0{rank_options(0, 2, 0)};
  ForeignConnection connection{rank0.port()};
  connection.say(Kind::hello, encode(Hello{.version = 7, .token = "", .rank = 1, .world = 2, .host = "old"}));
  auto const answer = connection.next();
  CHECK(answer.kind == Kind::refusal);
  CHECK_THAT(answer.body, Contains(fmt::format("version {} of", protocol_version)) && Contains("version 7"));
}

TEST_CASE("garbage on a foreign connection closes it, and does nothing else") {
  Log const log;
  Store rank0{rank_options(0, 2, 0)};
  Store rank1{rank_options(1, 2, rank0.port())};
  auto const hello = encode(Hello{.token = "the job of this test", .rank = 1, .world = 2, .host = "here"});
  auto const head = [](std::uint32_t bytes, std::uint8_t kind) {
    auto const raw = encode(Head{bytes, kind, 0});
    return std::string{raw.data(), raw.size()};
  };
  struct Row {
    char const* what;
    std::string bytes;
    char const* logged;
  };
  std::vector<Row> const rows{
      {"a browser", "GET / HTTP/1.1\r\nHost: here\r\n\r\n", "a message of unknown kind"},
      {"an announcement of four gigabytes", head(0xffffffff, 1), "announces 4294967295 bytes, where 1024 are allowed"},
      {"one byte too many", head(most_hello_bytes + 1, 1), "announces 1025 bytes"},
      {"no handshake", head(0, static_cast<std::uint8_t>(Kind::beat)), "something before its handshake"},
      {"a call before the handshake", head(8, static_cast<std::uint8_t>(Kind::get)) + "12345678",
       "something before its handshake"},
      {"an empty handshake", head(0, 1), "ends 4 bytes too early"},
      {"half a handshake", head(static_cast<std::uint32_t>(hello.size() - 9), 1) + hello.substr(0, hello.size() - 9),
       "too early"},
      {"a handshake with a tail", head(static_cast<std::uint32_t>(hello.size() + 3), 1) + hello + "end",
       "3 bytes too long"},
      {"another program's handshake", head(20, 1) + std::string("\x0c\0\0\0another one.1234", 20),
       "the handshake of another program"},
  };
  for (auto const& row : rows) {
    CAPTURE(row.what);
    ForeignConnection connection{rank0.port()};
    connection.say(row.bytes);
    CHECK(connection.hear() == "");
    CHECK(log.has(row.logged));
  }
  check_undisturbed(rank0, rank1);
}

TEST_CASE("random bytes on a connection close it, and do nothing else") {
  Log const log;
  Store rank0{rank_options(0, 2, 0)};
  Store rank1{rank_options(1, 2, rank0.port())};
  std::mt19937 random{12345};
  for (int round = 0; round < 50; ++round) {
    ForeignConnection connection{rank0.port()};
    std::string bytes(1 + random() % 3000, '\0');
    std::generate(bytes.begin(), bytes.end(), [&random] { return static_cast<char>(random()); });
    bytes[3] = '\x7f';  // so that it is not an incomplete message
    if (bytes.size() < head_bytes) {
      bytes.resize(head_bytes, '\x7f');
    }
    connection.say(bytes);
    CHECK(connection.hear() == "");
  }
  CHECK_THAT(log.all(), Contains("further refused connections are not logged"));
  check_undisturbed(rank0, rank1);
}

TEST_CASE("silent connections disturb no rank") {
  Store rank0{rank_options(0, 2, 0)};
  Store rank1{rank_options(1, 2, rank0.port())};
  {
    ForeignConnection const probe{rank0.port()};  // connects and closes, like a port scanner
  }
  std::vector<std::unique_ptr<ForeignConnection>> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(std::make_unique<ForeignConnection>(rank0.port()));
  }
  check_undisturbed(rank0, rank1);
}

/// A rank that joins correctly, and then does what no Store does.
struct FalseRank {
  explicit FalseRank(int port) : connection{port} {
    connection.say(Kind::hello, encode(Hello{.token = "the job of this test", .rank = 1, .world = 2, .host = "node7"}));
  }
  ForeignConnection connection;
};

TEST_CASE("a rank's protocol error fails the job and names the rank") {
  Log const log;
  struct Row {
    char const* what;
    std::function<void(ForeignConnection&)> act;
    std::string reason;
  };
  std::vector<Row> const rows{
      {"a message too long",
       [](ForeignConnection& rank) {
         auto const head = encode(Head{1 << 30, static_cast<std::uint8_t>(Kind::set), 1});
         rank.say(std::string_view{head.data(), head.size()});
       },
       "sent a message that announces 1073741824 bytes, where 9216 are allowed"},
      {"a value too long",
       [](ForeignConnection& rank) { rank.say(Kind::set, Body{}.text("key").text(std::string(4097, 'v')).take()); },
       "sent a message that announces a text of 4097 bytes, where 4096 are allowed"},
      {"what only rank 0 says", [](ForeignConnection& rank) { rank.say(Kind::welcome, ""); },
       "sent a message that only rank 0's store sends"},
      {"a report about a rank that is not there",
       [](ForeignConnection& rank) { rank.say(Kind::timeout_report, Body{}.text("waited").text("-aa").take()); },
       "sent a message that announces a text of 3 bytes, where 2 are allowed"},
      {"a report that says nothing of a rank",
       [](ForeignConnection& rank) { rank.say(Kind::timeout_report, Body{}.text("waited").text("-?").take()); },
       "sent a report that is not about the ranks of the job"},
      {"two handshakes", [](ForeignConnection& rank) { rank.say(Kind::hello, ""); },
       "sent a message that only rank 0's store sends"},
      {"garbage", [](ForeignConnection& rank) { rank.say("no message at all, but bytes"); },
       "sent a message of unknown kind"},
      {"an end without leave", [](ForeignConnection& rank) { ForeignConnection const ended{std::move(rank)}; },
       "ended without leaving the job"},
  };
  for (auto const& row : rows) {
    CAPTURE(row.what);
    Store rank0{rank_options(0, 2, 0)};
    FalseRank rank1{rank0.port()};
    row.act(rank1.connection);
    auto const told = outcome_of([&] { return rank0.get("never", patience); });
    CHECK_THAT(told, StartsWith("PeerError: [rank") || StartsWith("PeerError: rank 1 on node7 "));
    CHECK_THAT(told, Contains(row.reason));
  }
}

TEST_CASE("a rank that falls silent fails the job, and the reason names its groups") {
  auto options = rank_options(0, 2, 0);
  options.heartbeat_timeout = milliseconds{300};
  options.groups_of = [](int rank) { return " (group of " + std::to_string(rank) + ")"; };
  Store rank0{options};
  FalseRank const rank1{rank0.port()};
  CHECK_THAT(outcome_of([&] { return rank0.get("never", patience); }),
             StartsWith("PeerError: rank 1 on node7 (group of 1) has sent nothing for ") && Contains("it is frozen"));
  CHECK(rank0.failure()->origin == 1);
}

/// A program that has rank 0's port, but is not rank 0.
class Impostor {
 public:
  explicit Impostor(std::string answer) : answer_{std::move(answer)} {
    int error = 0;
    listener_ = listen_at("127.0.0.1", 0, error);
    REQUIRE(static_cast<bool>(listener_));
    thread_ = std::thread{[this] { serve(); }};
  }
  ~Impostor() {
    ended_ = true;
    thread_.join();
  }
  [[nodiscard]] int port() const { return port_of(listener_); }

 private:
  void serve() {
    std::vector<Arrival> arrivals;
    while (!ended_) {
      int error = 0;
      if (await_socket(listener_, POLLIN, Clock::now() + milliseconds{5})) {
        if (auto arrival = accept_from(listener_, error)) {
          (void)!::send(arrival->socket.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL);
          if (!answer_.empty()) {
            arrivals.push_back(std::move(*arrival));
          }
        }
      }
    }
  }
  std::string answer_;
  Descriptor listener_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

TEST_CASE("a rank that finds another program at rank 0's port says so") {
  auto const error_of = [](Impostor const& impostor, milliseconds join_timeout) {
    auto options = rank_options(1, 2, impostor.port());
    options.join_timeout = join_timeout;
    return outcome_of([&] { return std::to_string(Store{options}.rank()); });
  };
  constexpr milliseconds soon{1000};  // long enough for even a busy impostor to answer the last attempt
  CHECK_THAT(error_of(Impostor{"SSH-2.0-OpenSSH_9.2p1\r\n"}, patience),
             StartsWith("ConfigError: the server at 127.0.0.1:") && Contains("is not rank 0's store"));
  CHECK_THAT(error_of(Impostor{""}, soon), StartsWith("PeerError: rank 1 of 2 did not find rank 0's store") &&
                                               Contains("it accepted the connection and closed it"));
  CHECK_THAT(error_of(Impostor{"?"}, soon),
             StartsWith("PeerError: ") && Contains("it accepted the connection and sent nothing"));
}

}  // namespace
}  // namespace zeroth::comm
