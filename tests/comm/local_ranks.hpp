// SPDX-License-Identifier: Apache-2.0
/// Ranks as threads of the test.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/conformance.hpp"
#include "comm/local/local.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::comm::conformance {

/// The device of ranks.
struct Platform {
  std::function<std::unique_ptr<device::Device>(int rank)> make_device = [](int) { return device::make_cpu_device(); };
  Post post = post_on_cpu;
};

/// Runs `body` once per element of `communicators`, each on a thread with its own device, and returns the results.
/// `body` takes (Rank&) or (Rank&, std::unique_ptr<Communicator>&), the owner of the rank's communicator.
template <class Body>
[[nodiscard]] std::vector<std::string> run_ranks(std::vector<std::unique_ptr<Communicator>> communicators,
                                                 Body const& body, Platform const& platform = {}) {
  std::vector<std::string> results(communicators.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      threads.emplace_back([&, rank, world = communicators.size()] {
        this_rank() = {static_cast<int>(rank), static_cast<int>(world), ""};
        try {
          auto const device = platform.make_device(static_cast<int>(rank));
          Rank self{*communicators[rank], *device, platform.post};
          if constexpr (std::is_invocable_v<Body const&, Rank&>) {
            results[rank] = body(self);
          } else {
            results[rank] = body(self, communicators[rank]);
          }
        } catch (std::exception const& error) {
          results[rank] = std::string{"threw: "} + error.what();
        }
      });
    }
  }
  return results;
}

template <class Body>
[[nodiscard]] std::vector<std::string> run_ranks(int world, Body const& body, CommOptions const& options = {}) {
  return run_ranks(make_local(world, options), body);
}

}  // namespace zeroth::comm::conformance
