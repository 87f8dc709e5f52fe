// SPDX-License-Identifier: Apache-2.0
/// Runs a function on every rank of a job of threads, over communicators that a test may wrap.
#pragma once
#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/launch/job_state.hpp"
#include "comm/local/local.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing {

using Wrap = std::function<std::unique_ptr<comm::Communicator>(std::unique_ptr<comm::Communicator>)>;

/// Makes the device of this rank's engines. Called on the rank's thread.
using MakeDevice = std::function<std::unique_ptr<device::Device>(int rank)>;

/// Each rank's exception, or null.
using Outcome = std::vector<std::exception_ptr>;

/// Runs `rank_main` on `world` threads; an exception on one rank ends the others, as in launch().
inline Outcome run_job(int world, std::function<void(Job&)> const& rank_main, Wrap const& wrap = {},
                       MakeDevice const& make_device = {}) {
  auto communicators = comm::make_local(world);
  Outcome outcome(static_cast<std::size_t>(world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    auto& communicator = communicators[static_cast<std::size_t>(rank)];
    if (wrap) {
      communicator = wrap(std::move(communicator));
    }
    threads.emplace_back([&, rank] {
      this_rank() = {rank, world, ""};
      detail::JobState state;
      state.communicator = std::move(communicators[static_cast<std::size_t>(rank)]);
      if (make_device) {
        state.make_device = [&make_device, rank] { return make_device(rank); };
      }
      try {
        Job job = state.job();
        rank_main(job);
      } catch (std::exception const& error) {
        outcome[static_cast<std::size_t>(rank)] = std::current_exception();
        state.communicator->abort("rank " + std::to_string(rank) + " failed: " + error.what());
      }
    });
  }
  std::ranges::for_each(threads, [](std::thread& thread) { thread.join(); });
  return outcome;
}

inline std::string message_of(std::exception_ptr const& error) {
  if (!error) {
    return {};
  }
  try {
    std::rethrow_exception(error);
  } catch (std::exception const& e) {
    return e.what();
  }
}

/// The messages of all failed ranks, one per line.
inline std::string messages_of(Outcome const& outcome) {
  std::string all;
  for (auto const& error : outcome) {
    if (error) {
      all += message_of(error) + "\n";
    }
  }
  return all;
}

}  // namespace zeroth::testing
