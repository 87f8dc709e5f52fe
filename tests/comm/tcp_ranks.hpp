// SPDX-License-Identifier: Apache-2.0
/// Ranks of the tcp transport as threads of the test, each with a session of its own.
#pragma once
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/local_ranks.hpp"
#include "comm/store_ranks.hpp"
#include "comm/tcp/tcp_communicator.hpp"
#include "zeroth/core/error.hpp"

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

/// The sessions of `world` ranks that met at a free port, with options that `change` may change.
[[nodiscard]] inline std::vector<std::shared_ptr<TcpSession>> tcp_sessions(
    int world, WithinMachine within, std::function<void(TcpOptions&)> const& change = [](TcpOptions&) {}) {
  int error = 0;
  auto const port = port_of(listen_at("127.0.0.1", 0, error));  // free again, which another program may use
  std::vector<std::shared_ptr<TcpSession>> sessions(static_cast<std::size_t>(world));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      auto options = tcp_options(rank, world, port, within);
      options.rendezvous.at.ports = 16;
      options.rendezvous.at.token += std::to_string(::getpid());  // what listens there may be another such test
      change(options);
      sessions[static_cast<std::size_t>(rank)] = std::make_shared<TcpSession>(std::move(options));
    });
  }
  return sessions;  // once all threads have ended
}

/// As run_ranks() of local ranks, over tcp. `body` may let the job fail.
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
  std::vector<std::jthread> threads;  // rank 0's store waits for the others to leave
  for (auto& session : sessions) {
    threads.emplace_back([mine = std::move(session)]() mutable {
      try {
        mine->await_all();
      } catch (PeerError const&) {  // `body` let the job fail; the word may come only now
      }
      mine.reset();
    });
  }
  return problems;
}

}  // namespace zeroth::comm::conformance
