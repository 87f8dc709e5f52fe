// SPDX-License-Identifier: Apache-2.0
/// Tests which connections are accepted over tcp, and what they may send.
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "comm/store_ranks.hpp"
#include "comm/tcp/acceptor.hpp"
#include "comm/tcp/incoming.hpp"
#include "support/catch.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;

/// The acceptor of rank 1 of 3, and connections to it.
class AcceptorOfRank1 {
 public:
  explicit AcceptorOfRank1(std::chrono::milliseconds patience_for_handshake = std::chrono::minutes{5}) {
    int error = 0;
    auto listener = listen_at("127.0.0.1", 0, error);
    port_ = port_of(listener);
    acceptor_.emplace(Acceptor::Options{std::move(listener), "the token", 1, 3, patience_for_handshake});
  }
  [[nodiscard]] Descriptor connect() const { return connect_to("127.0.0.1", port_, Clock::now() + patience).socket; }
  /// Serves until `holds` returns true, or until the time limit `patience`.
  template <class F>
  bool serve_until(F const& holds) {
    for (auto const end = Clock::now() + patience; Clock::now() < end;) {
      std::vector<pollfd> entries;
      acceptor_->watch(entries);
      (void)::poll(entries.data(), entries.size(), 10);
      for (auto& rank_socket : acceptor_->serve(entries, Clock::now())) {
        accepted.push_back(std::move(rank_socket));
      }
      if (holds()) {
        return true;
      }
    }
    return false;
  }
  /// The answer to a connection that sends `bytes`: its kind, or "closed".
  [[nodiscard]] std::string answer_to(std::string const& bytes) {
    auto socket = connect();
    (void)!::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    Connection connection{std::move(socket), most_handshake_bytes};
    std::string heard;
    CHECK(serve_until([&] {
      bool const open = connection.receive();
      if (auto const frame = connection.next()) {
        heard =
            frame->kind == Kind::refusal ? "refusal: " + frame->body.substr(4) : "welcome: " + frame->body.substr(4);
      } else if (!open) {
        heard = "closed";
      }
      return !heard.empty();
    }));
    return heard;
  }
  std::vector<Acceptor::Accepted> accepted;

 private:
  int port_ = 0;
  std::optional<Acceptor> acceptor_;
};

std::string framed(std::string const& body, Kind kind = Kind::hello) {
  auto const head = encode(Head{static_cast<std::uint32_t>(body.size()), static_cast<std::uint8_t>(kind), 0});
  return std::string{head.data(), head.size()} + body;
}

TEST_CASE("only ranks of the job are accepted") {
  AcceptorOfRank1 acceptor;
  auto const said = [&](Handshake const& handshake) { return acceptor.answer_to(framed(encode(handshake))); };
  CHECK_THAT(said({.token = "another token", .from = 0, .to = 1, .world = 3}), Contains("its job token is not"));
  CHECK_THAT(said({.token = "", .from = 0, .to = 1, .world = 3}), Contains("its job token is not"));
  CHECK_THAT(said({.token = "the token", .from = 0, .to = 2, .world = 3}),
             Contains("looks for rank 2; this is rank 1"));
  CHECK_THAT(said({.token = "the token", .from = 3, .to = 1, .world = 3}), Contains("rank 3 of 3"));
  CHECK_THAT(said({.token = "the token", .from = 0, .to = 1, .world = 4}), Contains("rank 0 of 4"));
  CHECK_THAT(said({.version = 99, .token = "the token", .from = 0, .to = 1, .world = 3}), Contains("version 99"));
  CHECK(acceptor.accepted.empty());
  CHECK(said({.token = "the token", .from = 2, .to = 1, .world = 3}) == "welcome: the token");
  REQUIRE(acceptor.accepted.size() == 1);
  CHECK(acceptor.accepted[0].rank == 2);
}

TEST_CASE("a malformed handshake closes the connection") {
  AcceptorOfRank1 acceptor;
  auto const whole = framed(encode(Handshake{.token = "the token", .from = 0, .to = 1, .world = 3}));
  auto const head = [](std::uint32_t bytes) {
    auto const some = encode(Head{bytes, static_cast<std::uint8_t>(Kind::hello), 0});
    return std::string{some.data(), some.size()};
  };
  for (auto const& bytes : {std::string{"GET / HTTP/1.1\r\nHost: somebody\r\n\r\n"}, std::string(4096, '\xff'),
                            std::string(4096, '\0'), head(most_handshake_bytes + 1), head(0xffffffffU),
                            framed(whole, Kind::beat), framed("zeroth store"), framed(std::string(1024, 'x')),
                            framed(encode(Handshake{.token = "the token", .from = 0, .to = 1, .world = 3}) + "x")}) {
    CHECK(acceptor.answer_to(bytes) == "closed");
  }
  CHECK(acceptor.accepted.empty());
}

TEST_CASE("unfinished handshakes and many silent connections do not keep ranks out") {
  AcceptorOfRank1 acceptor{std::chrono::milliseconds{200}};
  auto const whole = framed(encode(Handshake{.token = "the token", .from = 0, .to = 1, .world = 3}));
  std::vector<Descriptor> crowd;
  for (int i = 0; i < 300; ++i) {
    crowd.push_back(acceptor.connect());
    if (i % 2 == 0) {
      (void)!::send(crowd.back().get(), whole.data(), whole.size() / 2, MSG_NOSIGNAL);
    }
    if (i % 20 == 0) {
      CHECK(acceptor.serve_until([] { return true; }));
    }
  }
  CHECK(acceptor.answer_to(whole) == "welcome: the token");
  // Each connection of the crowd is closed in the end.
  CHECK(acceptor.serve_until([&] {
    return std::all_of(crowd.begin(), crowd.end(), [](Descriptor const& each) {
      char byte = 0;
      auto const bytes = ::recv(each.get(), &byte, 1, MSG_DONTWAIT);
      return bytes == 0 || (bytes < 0 && errno == ECONNRESET);
    });
  }));
}

/// The result of an admitted connection that receives `bytes` and then its end.
std::string said(std::string const& bytes) {
  auto [mine, theirs] = socket_pair();
  (void)!::send(theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  theirs = {};
  Incoming incoming{std::move(mine)};
  std::string heard;
  try {
    std::string end;
    while (end.empty()) {
      end = incoming.advance({[](WireHead const&) -> std::byte* { throw BadFrame{"bytes that were not asked for"}; },
                              [&](WireHead const& head, std::string const& words) {
                                heard += std::to_string(static_cast<int>(head.kind)) + words + " ";
                              }});
    }
    return heard + end;
  } catch (BadFrame const& bad) {
    return heard + "bad: " + bad.what();
  }
}

std::string bytes_of(WireHead const& head) {
  auto const bytes = encode(head);
  return {bytes.data(), bytes.size()};
}

TEST_CASE("a rank that has sent its handshake is accepted, however many pending connections follow") {
  AcceptorOfRank1 acceptor;
  auto const whole = framed(encode(Handshake{.token = "the token", .from = 0, .to = 1, .world = 3}));
  std::vector<Descriptor> sockets;
  sockets.push_back(acceptor.connect());
  REQUIRE(::send(sockets.back().get(), whole.data(), whole.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(whole.size()));
  for (std::size_t i = 0; i < most_pending_connections + 10; ++i) {
    sockets.push_back(acceptor.connect());
  }
  CHECK(acceptor.serve_until([&] { return !acceptor.accepted.empty(); }));
}

TEST_CASE("a rank rejects data that it did not request, and invalid message heads") {
  auto const left = bytes_of({.kind = WireKind::left, .communicator = 7, .offset = 9});
  CHECK(said(left + left) == "3 3 it closed the connection");
  CHECK(said(left.substr(0, 20)) == "it closed the connection");
  CHECK(said(bytes_of({.kind = WireKind::answer, .bytes = 5}) + "where" + left) == "5where 3 it closed the connection");
  CHECK_THAT(said(bytes_of({.kind = WireKind::data, .bytes = 5}) + "hello"), Contains("not asked for"));
  CHECK_THAT(said(bytes_of({.kind = WireKind::data, .bytes = most_piece_bytes + 1})), Contains("announces"));
  CHECK_THAT(said(bytes_of({.kind = WireKind::answer, .bytes = most_whereabouts_bytes + 1})), Contains("announces"));
  CHECK_THAT(said(bytes_of({.kind = WireKind::left, .bytes = 1})), Contains("announces"));
  CHECK_THAT(said(bytes_of({.kind = static_cast<WireKind>(0)})), Contains("unknown kind 0"));
  CHECK_THAT(said(bytes_of({.kind = static_cast<WireKind>(6)})), Contains("unknown kind 6"));
  CHECK_THAT(said(bytes_of({.kind = WireKind::want, .tag = static_cast<Tag>(4)})), Contains("tag 4"));
  CHECK_THAT(said(bytes_of({.kind = WireKind::want, .offset = 1, .length = ~std::uint64_t{0} >> 1U})),
             Contains("wants"));
  CHECK_THAT(said(bytes_of({.kind = WireKind::want, .length = ~std::uint64_t{0}})), Contains("wants"));
}

}  // namespace
}  // namespace zeroth::comm
