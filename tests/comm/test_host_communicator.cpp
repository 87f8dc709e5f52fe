// SPDX-License-Identifier: Apache-2.0
#include "comm/host_communicator.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "comm/board_communicator.hpp"
#include "comm/conformance_parts.hpp"
#include "comm/local_ranks.hpp"
#include "support/catch.hpp"

namespace zeroth::comm::conformance {
namespace {

TEST_CASE("HostCommunicator conforms: transactions, messages and splits") {
  int const world = GENERATE(1, 2, 3, 4);
  for (auto const& cases : {transaction_cases(), message_cases(), split_cases()}) {
    BoardRanks ranks{world};
    auto const problems = run_ranks(ranks.communicators(), [&](Rank& rank) { return problems_of(cases, rank); });
    for (auto const& problem : problems) {
      CAPTURE(world);
      CHECK(problem == "");
    }
  }
}

TEST_CASE("faults end every rank of a transport, and name the rank that is missing or differs") {
  int const world = GENERATE(2, 3);
  for (auto const& each : fault_cases()) {
    BoardRanks ranks{world};
    auto communicators = ranks.communicators();
    for (auto const& communicator : communicators) {
      communicator->set_options({.check = true});
    }
    auto const problems = run_ranks(std::move(communicators), [&](Rank& rank) { return problem_of(each, rank); });
    for (auto const& problem : problems) {
      CAPTURE(world, each.name);
      CHECK(problem == "");
    }
  }
}

Collective message(Operation operation, float& data, int peer) {
  return {operation, &data, &data, 1, Dtype::fp32, peer};
}

/// The error of rank 0 of three, which waits for a message from rank 1. Rank 1 does not send, and leaves if `leaves`.
std::string wait_in_vain(bool check, bool leaves, std::optional<JobFailure> const& verdict = {}) {
  BoardRanks ranks{3, verdict};
  return run_ranks(ranks.communicators(), [&](Rank& rank, std::unique_ptr<Communicator>& owner) {
    if (rank.communicator.rank() != 0) {
      if (rank.communicator.rank() == 1 && leaves) {
        owner.reset();
      }
      return std::string{};
    }
    rank.communicator.set_options({leaves ? std::chrono::minutes{2} : std::chrono::milliseconds{300}, check});
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = 1;
    auto const receive = message(Operation::receive, data, 1);
    rank.communicator.submit(*stream, {"forward", "stage 2"}, {&receive, 1});
    return error_of(*stream);
  })[0];
}

TEST_CASE("a rank that waits for a message waits only for its sender") {
  bool const check = GENERATE(false, true);
  CAPTURE(check);
  CHECK_THAT(wait_in_vain(check, false), Catch::Contains("missing: rank 1") && !Catch::Contains("rank 2"));
  CHECK_THAT(wait_in_vain(check, true), Catch::Contains("rank 1 left; rank 0 was waiting for it in receive"));
}

TEST_CASE("a rank whose wait times out reports the job's reason, which may be another rank's") {
  auto const message = wait_in_vain(false, false, JobFailure{2, "rank 2 heard nothing from rank 1's machine"});
  CHECK_THAT(message, Catch::Contains("rank 2 heard nothing from rank 1's machine") && !Catch::Contains("missing:"));
}

TEST_CASE("a rank that waits in a collective after a message waits for all ranks") {
  bool const check = GENERATE(false, true);
  BoardRanks ranks{3};
  auto const results = run_ranks(ranks.communicators(), [&](Rank& rank) {
    int const me = rank.communicator.rank();
    if (me == 2) {
      return std::string{};
    }
    rank.communicator.set_options({std::chrono::milliseconds{1000}, check});
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = 1;
    auto const one = message(me == 0 ? Operation::send : Operation::receive, data, 1 - me);
    rank.communicator.submit(*stream, {"forward", "stage 2"}, {&one, 1});
    stream->synchronize();
    rank.communicator.all_reduce(*stream, {"step", ""}, &data, &data, 1, Dtype::fp32);
    return error_of(*stream);
  });
  CAPTURE(check);
  CHECK_THAT(results[0], Catch::Contains("all_reduce") && Catch::Contains("missing: rank 2"));
  CHECK_THAT(results[1], Catch::Contains("all_reduce") && Catch::Contains("missing: rank 2"));
}

}  // namespace
/// Rank 0 sends three messages of 1, 2 and 3 elements to rank 1, which receives the number of elements in `counts`.
std::vector<std::string> send_three(std::array<std::int64_t, 3> const& counts) {
  BoardRanks ranks{2};
  return run_ranks(ranks.communicators(), [&](Rank& rank) {
    bool const sends = rank.communicator.rank() == 0;
    rank.communicator.set_options({.check = true});
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    std::array<std::array<float, 3>, 3> data{};
    std::vector<Collective> messages;
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i].fill(sends ? static_cast<float>(i + 1) : 0);
      messages.push_back(message(sends ? Operation::send : Operation::receive, data[i].front(), sends ? 1 : 0));
      messages.back().count = sends ? static_cast<std::int64_t>(i + 1) : counts[i];
    }
    rank.communicator.submit(*stream, {"forward", "stage 2"}, messages);
    auto const error = error_of(*stream);
    using Row = std::array<float, 3>;
    bool const arrived = data == std::array<Row, 3>{Row{1, 0, 0}, Row{2, 2, 0}, Row{3, 3, 3}};
    return !error.empty() ? error : sends || arrived ? "" : "other messages than were sent arrived";
  });
}

TEST_CASE("with check, each message is compared with what the other side expects") {
  CHECK(send_three({1, 2, 3}) == std::vector<std::string>(2));
  for (auto const& problem : send_three({1, 2, 2})) {
    CHECK_THAT(problem, Catch::Contains("3 fp32, to rank 1") && Catch::Contains("2 fp32, from rank 0"));
  }
}

}  // namespace zeroth::comm::conformance
