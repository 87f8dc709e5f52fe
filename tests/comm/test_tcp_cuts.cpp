// SPDX-License-Identifier: Apache-2.0
// Ranks over tcp whose network loses what goes in one direction: all end, and name the same rank.
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/describe.hpp"
#include "comm/relays.hpp"
#include "comm/tcp_ranks.hpp"
#include "core/host_name.hpp"
#include "support/catch.hpp"

namespace zeroth::comm::conformance {
namespace {

using Catch::EndsWith;
using Catch::StartsWith;
using std::chrono::milliseconds;

constexpr milliseconds never = std::chrono::minutes{5};
constexpr milliseconds soon{4000};

/// What ranks said in the end, and what the job's reason was for each.
struct Ends {
  std::vector<std::string> said, reasons;
};

/// Ranks that reduce again and again until `cut` has made that impossible.
Ends run_until_cut(int world, milliseconds heartbeat, milliseconds timeout, std::function<void(Relays&)> const& cut) {
  Relays relays;
  int error = 0;
  auto const port = port_of(listen_at("127.0.0.1", 0, error));  // free again when this is through
  std::vector<std::shared_ptr<TcpSession>> sessions(static_cast<std::size_t>(world));
  std::vector<std::unique_ptr<Communicator>> communicators(sessions.size());
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world; ++rank) {
      threads.emplace_back([&, rank] {
        auto options = tcp_options(rank, world, port, WithinMachine::network);
        options.rendezvous.heartbeat_timeout = heartbeat;
        if (rank != 0) {
          options.rendezvous.at.port = relays.port(rank, 0, port);
        }
        options.detour = [&relays, rank](int to, Endpoint const& at) {
          return to == rank ? at : Endpoint{at.host, relays.port(rank, to, at.port)};
        };
        auto const place = static_cast<std::size_t>(rank);
        sessions[place] = std::make_shared<TcpSession>(options);
        communicators[place] = make_tcp(sessions[place], {.timeout = timeout});
      });
    }
  }
  Counter rounds;
  std::jthread const cutter{[&] {
    rounds.wait_for(static_cast<std::uint32_t>(10 * world));
    cut(relays);
  }};
  Ends ends;
  ends.said = run_ranks(std::move(communicators), [&](Rank& rank) -> std::string {
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    std::vector<float> data(1000, 0);
    try {
      while (true) {
        rank.communicator.all_reduce(*stream, {"test", "cut"}, data.data(), data.data(), 1000, Dtype::fp32);
        stream->synchronize();
        rounds.add();
      }
    } catch (PeerError const& failed) {
      return failed.what();
    }
  });
  for (auto const& session : sessions) {
    ends.reasons.push_back(session->failure() ? session->failure()->reason : "none");
  }
  std::vector<std::jthread> threads;
  for (auto& session : sessions) {
    threads.emplace_back([mine = std::move(session)]() mutable { mine.reset(); });
  }
  return ends;
}

void deafen(Relays& relays, int rank, int world) {
  for (int other = 0; other < world; ++other) {
    relays.cut(other, rank);
  }
}
void mute(Relays& relays, int rank, int world) {
  for (int other = 0; other < world; ++other) {
    relays.cut(rank, other);
  }
}

std::string named(int rank) { return "rank " + std::to_string(rank) + " on " + host_name(); }
std::string all_but(int rank, int world) {
  std::vector<int> others(static_cast<std::size_t>(world));
  std::iota(others.begin(), others.end(), 0);
  std::erase(others, rank);
  return describe_ranks(others);
}

/// All have one reason, which begins so, and each rank says it first.
void check_same(Ends const& ends, std::string const& beginning, int but = -1) {
  std::string const& reason = ends.reasons[but == 0 ? 1 : 0];
  for (std::size_t rank = 0; rank < ends.reasons.size(); ++rank) {
    CAPTURE(rank, ends.said[rank]);
    if (static_cast<int>(rank) != but) {
      CHECK(ends.reasons[rank] == reason);
      CHECK_THAT(ends.reasons[rank], StartsWith(beginning));
    }
    CHECK_THAT(ends.said[rank], Catch::Contains(ends.reasons[rank]));
  }
}

TEST_CASE("a rank 0 that hears nobody is named to all") {
  int const world = GENERATE(3, 4);
  auto const ends = run_until_cut(world, soon, never, [&](Relays& relays) { deafen(relays, 0, world); });
  check_same(ends, named(0) + " hears none of " + all_but(0, world) + ": nothing has come through for ");
}

TEST_CASE("a rank 0 that nobody hears is named by each, who can be told nothing") {
  int const world = GENERATE(3, 4);
  auto const ends = run_until_cut(world, soon, never, [&](Relays& relays) { mute(relays, 0, world); });
  CHECK_THAT(ends.reasons[0], StartsWith(named(0) + " is heard by none of " + all_but(0, world)));
  for (int rank = 1; rank < world; ++rank) {
    CHECK_THAT(ends.reasons[static_cast<std::size_t>(rank)],
               StartsWith(named(rank) + " does not hear rank 0 (127.0.0.1:"));
  }
}

TEST_CASE("a rank that hears nobody is named to all others, and says the same") {
  int const world = GENERATE(3, 4);
  auto const ends = run_until_cut(world, soon, never, [&](Relays& relays) { deafen(relays, 2, world); });
  check_same(ends, named(2) + " does not hear " + named(0) + ": nothing has come through for ", 2);
  CHECK_THAT(ends.reasons[2], StartsWith(named(2) + " does not hear rank 0 (127.0.0.1:"));
}

TEST_CASE("a rank that nobody hears is named to all, itself among them") {
  int const world = GENERATE(3, 4);
  auto const ends = run_until_cut(world, soon, never, [&](Relays& relays) { mute(relays, 2, world); });
  check_same(ends, named(2) + " has not been heard of for ");
}

TEST_CASE("of two ranks one of which does not hear the other all say so, those who only wait for them too") {
  auto const [from, to] = GENERATE(std::pair{1, 2}, std::pair{3, 1});
  CAPTURE(from, to);
  auto const ends =
      run_until_cut(4, never, soon, [cut = std::pair{from, to}](Relays& relays) { relays.cut(cut.first, cut.second); });
  check_same(ends, named(to) + " does not hear " + named(from) + ": rank " + std::to_string(to) + " waited ");
}

TEST_CASE("a rank that is cut off both ways from one other is not taken for dead") {
  auto const ends = run_until_cut(4, never, soon, [](Relays& relays) {
    relays.cut(1, 2);
    relays.cut(2, 1);
  });
  check_same(ends, named(1) + " and " + named(2) + " do not hear each other: ");
}

TEST_CASE("a rank that hears nobody is named where collectives end before its heart is missed") {
  auto const ends = run_until_cut(4, never, soon, [](Relays& relays) { deafen(relays, 2, 4); });
  check_same(ends, named(2) + " hears none of ranks 0, 1 and 3: rank 2 waited ", 2);
  CHECK_THAT(ends.reasons[2], StartsWith("rank 2 waited ") && EndsWith("it may be rank 2 that hears nothing"));
}

/// Of the network that this thread sees, and those that it starts.
void set_loopback(bool up) {
  Descriptor const any{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ifreq request{};
  std::string_view{"lo"}.copy(request.ifr_name, sizeof request.ifr_name);
  request.ifr_flags = static_cast<short>(up ? IFF_UP | IFF_RUNNING : 0);
  if (::ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) {
    throw SystemError{"SIOCSIFFLAGS: " + error_text(errno)};
  }
}

// Left to itself the system gives a connection up after 15 s without an answer.
TEST_CASE("who is silent for long is named by the store, and connections do not break before") {
  std::optional<Ends> ends;
  std::thread{[&] {
    if (::unshare(CLONE_NEWNET) == 0) {
      set_loopback(true);
      ends = run_until_cut(3, milliseconds{17'000}, never, [](Relays&) { set_loopback(false); });
    }
  }}.join();
  if (!ends) {
    WARN("skipped: this process may have no network of its own");
    return;
  }
  CHECK_THAT(ends->reasons[0], StartsWith(named(0) + " hears none of ranks 1 and 2") ||
                                   StartsWith(named(0) + " and ranks 1 and 2 do not hear each other"));
  for (int rank = 1; rank < 3; ++rank) {
    CHECK_THAT(ends->reasons[static_cast<std::size_t>(rank)],
               StartsWith(named(rank) + " does not hear rank 0 (127.0.0.1:"));
  }
}

}  // namespace
}  // namespace zeroth::comm::conformance
