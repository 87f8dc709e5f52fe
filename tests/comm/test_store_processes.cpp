// SPDX-License-Identifier: Apache-2.0
// The store among processes that are killed, frozen, throw, or arrive late.
#include <chrono>
#include <csignal>
#include <thread>

#include "comm/store/socket.hpp"
#include "core/host_name.hpp"
#include "support/catch.hpp"
#include "support/children.hpp"

namespace zeroth::comm {
namespace {

constexpr int calm_ms = 60'000;    // longer than any of these tests: everything is reported at once
constexpr int hurried_ms = 2'000;  // for tests that wait for a timeout

/// Processes, each with the behaviour of its rank.
class Processes : public testing::Children {
 public:
  Processes(int heartbeat_ms, std::vector<std::string> const& deeds, std::size_t world = 0)
      : world_{world == 0 ? deeds.size() : world}, heartbeat_ms_{heartbeat_ms} {
    for (auto const& deed : deeds) {
      start_rank(count(), deed);
    }
  }
  void start_rank(std::size_t rank, std::string const& deed) {
    auto& child = start({ZEROTH_STORE_PROGRAM, std::to_string(rank), std::to_string(world_), port_,
                         std::to_string(heartbeat_ms_), deed});
    if (rank == 0) {
      REQUIRE(child.wait_for("."));
      auto const& output = child.output();
      port_ = output.substr(output.find("port ") + 5, output.find('.') - 5);
    }
  }
  void wait_until_joined() {
    for (std::size_t rank = 0; rank < count(); ++rank) {
      REQUIRE((*this)[rank].wait_for("joined"));
    }
  }
  [[nodiscard]] std::string const& port() const noexcept { return port_; }

  /// Checks that the process ended with an error that contains `words`.
  void check_told(std::size_t rank, std::string const& words) { check_said(rank, words, 3); }

 private:
  std::size_t world_;
  int heartbeat_ms_;
  std::string port_ = "0";
};

std::string name_of(int rank) { return "rank " + std::to_string(rank) + " on " + host_name(); }

TEST_CASE("processes join and leave") {
  Processes job{calm_ms, {"meet", "meet", "meet", "meet"}};
  for (std::size_t rank = 0; rank < 4; ++rank) {
    job.check_said(rank, "met 0 1 2 3", 0);
  }
}

TEST_CASE("a rank that is killed is named to all others") {
  Processes job{calm_ms, {"wait", "wait", "wait"}};
  job.wait_until_joined();
  job[2].send(SIGKILL);
  job.check_told(0, "told: " + name_of(2) + " ended without leaving the job");
  job.check_told(1, "told: " + name_of(2) + " ended without leaving the job");
}

TEST_CASE("the reason names rank 0 to all others when rank 0 is killed") {
  Processes job{calm_ms, {"wait", "wait", "call"}};
  job.wait_until_joined();
  job[0].send(SIGKILL);
  auto const words = "told: rank 0 (127.0.0.1:" + job.port() + ") ended without leaving the job";
  job.check_told(1, words);
  job.check_told(2, words);
}

TEST_CASE("a frozen rank is named to all others, and learns it when it continues") {
  Processes job{hurried_ms, {"wait", "wait", "wait"}};
  job.wait_until_joined();
  job[1].send(SIGSTOP);
  auto const words = "told: " + name_of(1) + " has sent nothing for ";
  job.check_told(2, words);
  job.check_told(0, words);
  job[1].send(SIGCONT);
  // Rank 0 has ended by now; it knew the reason before.
  job.check_told(1, words);
}

TEST_CASE("when rank 0 is frozen all others name it, and it learns so when it continues") {
  Processes job{hurried_ms, {"wait", "wait", "wait"}};
  job.wait_until_joined();
  job[0].send(SIGSTOP);
  auto const words = " receives nothing from rank 0 (127.0.0.1:" + job.port() + "): no message for ";
  job.check_told(1, "told: " + name_of(1) + words);
  job.check_told(2, "told: " + name_of(2) + words);
  job[0].send(SIGCONT);
  job.check_told(0, "told: ranks 1 and 2 on " + host_name() + " receive nothing from " + name_of(0));
}

TEST_CASE("an exception of a rank ends all others") {
  Processes job{calm_ms, {"wait", "throw", "wait"}};
  job.check_told(1, "told: out of luck");
  job.check_told(0, "told: rank 1 was ended by an exception");
  job.check_told(2, "told: rank 1 was ended by an exception");
}

TEST_CASE("an abort reaches all ranks, though its process ends at once") {
  std::size_t const aborter = GENERATE(0U, 2U);
  std::vector<std::string> deeds(4, "wait");
  deeds[aborter] = "abort";
  Processes job{calm_ms, deeds};
  auto const reason = "rank " + std::to_string(aborter) + " failed: no disk";
  for (std::size_t rank = 0; rank < 4; ++rank) {
    job.check_said(rank, rank == aborter ? "joined" : "told: " + reason, rank == aborter ? 4 : 3);
  }
}

TEST_CASE("the others wait for a rank that joins late") {
  Processes job{calm_ms, {"meet", "meet"}, 3};
  std::this_thread::sleep_for(std::chrono::milliseconds{300});
  job.start_rank(2, "meet");
  for (std::size_t rank = 0; rank < 3; ++rank) {
    job.check_said(rank, "met 0 1 2", 0);
  }
}

TEST_CASE("a job whose processes are all stopped continues with them") {
  Processes job{hurried_ms, {"rest", "rest", "rest"}};
  job.wait_until_joined();
  for (int const signal : {SIGSTOP, SIGCONT}) {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      job[rank].send(signal);
    }
    if (signal == SIGSTOP) {
      std::this_thread::sleep_for(std::chrono::milliseconds{2 * hurried_ms});
    }
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    job.check_said(rank, "met 0 1 2", 0);
  }
}

TEST_CASE("a restarted process is rejected as a rank of the same job") {
  Processes job{calm_ms, {"wait", "wait"}};
  job.wait_until_joined();
  job.start_rank(1, "meet");
  job.check_told(2, "has joined already: two processes were given the same rank");
  job[0].send(SIGKILL);
  job.check_told(1, "told: rank 0 (127.0.0.1:");
}

}  // namespace
}  // namespace zeroth::comm
