// SPDX-License-Identifier: Apache-2.0
/// Ranks as threads of the test that communicate by NCCL, each with the objects that a process would have.
#pragma once
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/conformance.hpp"
#include "comm/launch/job_state.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "comm/store_ranks.hpp"
#include "cuda/gpus.hpp"
#include "support/job.hpp"
#include "support/reserved_port.hpp"
#include "zeroth/device/cuda.hpp"
#ifndef ZEROTH_ON_GPU
#include "support/fake_nccl/fake_nccl.hpp"
#endif

namespace zeroth::testing {

#ifdef ZEROTH_ON_GPU
inline void begin_nccl_on(Gpus const& /*gpus*/) {}
[[nodiscard]] inline std::string left_over() { return {}; }
#else
/// GPUs that can access host memory on heaps and stacks, which some tests use.
inline constexpr fake_cuda::Machine with_host_memory{.reaches_host_memory = true};
/// Resets the machine and its NCCL.
inline void begin_nccl(fake_cuda::Machine const& machine = with_host_memory) {
  fake_cuda::reset(machine);
  fake_nccl::reset();
  // Created before other threads: ThreadSanitizer does not see the lock that the logger's library uses for its
  // creation.
  static_cast<void>(spdlog::default_logger_raw());
}
inline void begin_nccl_on(Gpus const& gpus) { begin_nccl({.gpus = gpus.count, .delays = gpus.delays}); }
[[nodiscard]] inline std::string left_over() { return fake_cuda::leftovers() + fake_nccl::leftovers(); }
#endif

/// A rank's store, on this machine.
[[nodiscard]] inline comm::RendezvousOptions rendezvous_of(int rank, int world, int port) {
  comm::RendezvousOptions options;
  options.at = {"127.0.0.1", port, "this test", "token"};
  options.rank = rank;
  options.world = world;
  options.join_timeout = std::chrono::minutes{2};
  options.heartbeat_timeout = std::chrono::minutes{1};
  return options;
}
[[nodiscard]] inline std::shared_ptr<comm::NcclSession> make_session(int rank, int world, int port, int gpu) {
  return std::make_shared<comm::NcclSession>(rendezvous_of(rank, world, port), gpu,
                                             std::make_shared<comm::FlightRecorder>(rank, world));
}

/// Runs `body(Rank&, std::unique_ptr<Communicator>&)` on every rank's thread, and returns what each one returned or
/// threw.
template <class Body>
[[nodiscard]] std::vector<std::string> run_nccl_ranks(int world, Body const& body, int gpus = 1,
                                                      comm::CommOptions const& options = {}) {
  std::vector<std::string> results(static_cast<std::size_t>(world));
  ReservedPort const port;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world; ++rank) {
      threads.emplace_back([&, rank] {
        this_rank() = {rank, world, ""};
        results[static_cast<std::size_t>(rank)] = comm::outcome_of([&] {
          auto const device = device::make_cuda_device(rank % gpus);
          auto const session = make_session(rank, world, port.number(), rank % gpus);
          auto communicator = comm::make_nccl(session, options);
          comm::conformance::Rank self{*communicator, *device, post_on_gpu};
          self.records_starts = false;
          return body(self, communicator);
        });
      });
    }
  }
  return results;
}

/// Like run_job(), over NCCL.
inline Outcome run_nccl_job(int world, std::function<void(Job&)> const& rank_main, int gpus = 1) {
  Outcome outcome(static_cast<std::size_t>(world));
  std::vector<std::thread> threads;
  ReservedPort const port;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      this_rank() = {rank, world, ""};
      std::shared_ptr<comm::NcclSession> session;
      try {
        session = make_session(rank, world, port.number(), rank % gpus);
        detail::JobState state;
        state.make_device = [rank, gpus] {
          return device::make_cuda_device(rank % gpus, device::CudaBuffers::registrable);
        };
        state.communicator = comm::make_nccl(session);
        Job job = state.job();
        rank_main(job);
        state.communicator.reset();
      } catch (std::exception const& error) {
        outcome[static_cast<std::size_t>(rank)] = std::current_exception();
        if (session) {
          session->fail("rank " + std::to_string(rank) + " failed: " + error.what());
        }
      }
    });
  }
  std::ranges::for_each(threads, [](std::thread& thread) { thread.join(); });
  return outcome;
}

}  // namespace zeroth::testing
