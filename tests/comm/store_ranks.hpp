// SPDX-License-Identifier: Apache-2.0
/// Stores of several ranks in one process.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/store/store.hpp"
#include "core/counter.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {

/// A time limit that is never reached if everything works.
inline constexpr std::chrono::seconds patience{120};

/// The result of `call`, or its exception as "PeerError: ...".
template <class F>
[[nodiscard]] std::string outcome_of(F const& call) {
  try {
    return call();
  } catch (LateError const& error) {
    return std::string{"LateError: "} + error.what();
  } catch (PeerError const& error) {
    return std::string{"PeerError: "} + error.what();
  } catch (ConfigError const& error) {
    return std::string{"ConfigError: "} + error.what();
  } catch (ContractError const& error) {
    return std::string{"ContractError: "} + error.what();
  } catch (SystemError const& error) {
    return std::string{"SystemError: "} + error.what();
  } catch (std::exception const& error) {
    return std::string{"exception: "} + error.what();
  }
}

/// "a|b|c|".
[[nodiscard]] inline std::string joined(std::vector<std::string> const& values) {
  return std::accumulate(values.begin(), values.end(), std::string{},
                         [](std::string all, auto const& value) { return std::move(all) + value + "|"; });
}

/// Options for one rank of a job on this machine.
[[nodiscard]] inline StoreOptions rank_options(int rank, int world, int port) {
  StoreOptions options;
  options.at.host = "127.0.0.1";
  options.at.port = port;
  options.rank = rank;
  options.world = world;
  options.at.token = "the job of this test";
  options.join_timeout = std::chrono::minutes{2};
  options.heartbeat_timeout = std::chrono::seconds{60};  // for sanitizers on a busy machine
  options.leave_timeout = std::chrono::seconds{60};
  return options;
}

/// Runs `body` with every rank's store on a separate thread. Returns each result or exception, [world]. `change` may
/// modify each rank's options.
[[nodiscard]] inline std::vector<std::string> among_stores(
    int world, std::function<std::string(Store&)> const& body,
    std::function<void(StoreOptions&)> const& change = [](StoreOptions&) {}) {
  std::vector<std::string> outcomes(static_cast<std::size_t>(world));
  std::atomic<int> port{0};
  Counter listening;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[static_cast<std::size_t>(rank)] = outcome_of([&] {
        if (rank > 0) {
          listening.wait_for(1);
        }
        auto options = rank_options(rank, world, port.load());
        change(options);
        Store store{options};
        if (rank == 0) {
          port.store(store.port());
          listening.add();
        }
        return body(store);
      });
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  return outcomes;
}

}  // namespace zeroth::comm
