// SPDX-License-Identifier: Apache-2.0
/// Ranks of the tcp transport as threads of the test, each with its own session.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/local_ranks.hpp"
#include "comm/store_ranks.hpp"
#include "comm/tcp/tcp_communicator.hpp"
#include "support/reserved_port.hpp"

namespace zeroth::comm::conformance {

[[nodiscard]] inline TcpOptions tcp_options(int rank, int world, int port, WithinMachine within) {
  auto const store = rank_options(rank, world, port);
  return {.rendezvous = {.at = store.at,
                         .rank = rank,
                         .world = world,
                         .join_timeout = store.join_timeout,
                         .heartbeat_timeout = store.heartbeat_timeout},
          .interface = {},
          .within_machine = within};
}

/// The sessions of `world` ranks, which have met. `change` may modify the options of each.
[[nodiscard]] inline std::vector<std::shared_ptr<TcpSession>> tcp_sessions(
    int world, WithinMachine within, std::function<void(TcpOptions&)> const& change = [](TcpOptions&) {}) {
  testing::ReservedPort const port;
  std::vector<std::shared_ptr<TcpSession>> sessions(static_cast<std::size_t>(world));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      auto options = tcp_options(rank, world, port.number(), within);
      change(options);
      sessions[static_cast<std::size_t>(rank)] = std::make_shared<TcpSession>(std::move(options));
    });
  }
  return sessions;  // once all threads have ended
}

/// Like run_ranks() of local ranks, over tcp. `body` may fail the job.
template <class Body>
[[nodiscard]] std::vector<std::string> run_tcp_ranks(int world, WithinMachine within, Body const& body,
                                                     CommOptions const& options = {}, Platform const& platform = {}) {
  auto sessions = [&] {
    std::vector<std::shared_ptr<TcpSession>> all;
    all = tcp_sessions(world, within);
    return all;
  }();
  std::vector<std::unique_ptr<Communicator>> communicators(sessions.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
      threads.emplace_back([&, rank] { communicators[rank] = make_tcp(sessions[rank], options); });
    }
  }
  auto const problems = run_ranks(std::move(communicators), body, platform);
  // The rank that failed the job knows it by now; the others may learn it at any time.
  bool const failed = std::ranges::any_of(sessions, [](auto const& each) { return each->failure().has_value(); });
  std::vector<std::jthread> threads;  // rank 0's store waits for the others to leave
  for (auto& session : sessions) {
    threads.emplace_back([mine = std::move(session), failed]() mutable {
      if (!failed) {
        mine->await_all();
      }
      mine.reset();
    });
  }
  return problems;
}

}  // namespace zeroth::comm::conformance
