// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/tcp_job.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/finally.hpp"
#include "comm/launch/job_state.hpp"
#include "comm/launch/process_end.hpp"
#include "comm/launch/rank_process.hpp"
#include "comm/launch/store_address.hpp"
#include "comm/tcp/tcp_communicator.hpp"
#include "core/logger.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

/// One session for all jobs of this process. It ends with the process, because ranks can only meet once at an address.
std::shared_ptr<TcpSession> open_session(LaunchOptions const& options, LaunchedRank const& launched) {
  static_cast<void>(logger());  // made before the session, so that it still exists when that ends
  static std::mutex mutex;
  static std::shared_ptr<TcpSession> kept;
  std::scoped_lock const lock{mutex};
  if (kept == nullptr) {
    Variables const variable = [](char const* name) -> char const* { return std::getenv(name); };
    TcpOptions tcp{.rendezvous = {.at = find_store_address(variable, launched, this_program()),
                                  .rank = launched.rank,
                                  .world = launched.world,
                                  .join_timeout = options.join_timeout}};
    try {
      read_tcp_variables(variable, tcp);
    } catch (ConfigError const& error) {  // other ranks learn of it when all meet, which may never happen
      tcp.rendezvous.problem = error.what();
      logger().error("{}", error.what());
    }
    kept = std::make_shared<TcpSession>(std::move(tcp));
  }
  if (auto const failure = kept->failure()) {
    throw SystemError{fmt::format("an earlier job of this process failed ({}): start a new process", failure->reason)};
  }
  return kept;
}

}  // namespace

void read_tcp_variables(Variables const& variable, TcpOptions& options) {
  if (char const* const name = variable("ZEROTH_INTERFACE"); name != nullptr) {
    options.interface = name;
  }
  char const* const within = variable("ZEROTH_WITHIN_MACHINE");
  if (within == nullptr || within == std::string_view{"memory"}) {
    options.within_machine = WithinMachine::memory;
  } else if (within == std::string_view{"network"}) {
    options.within_machine = WithinMachine::network;
  } else {
    throw ConfigError{
        fmt::format("ZEROTH_WITHIN_MACHINE='{}' in the environment: allowed are memory and network", within)};
  }
}

int run_tcp_job(LaunchOptions const& options, LaunchedRank const& launched,
                std::function<void(Job&)> const& rank_main) {
  RankContext const speaker_before = this_rank();
  this_rank() = {launched.rank, launched.world, {}};
  Finally const restore{[&speaker_before] { this_rank() = speaker_before; }};
  auto const session = open_session(options, launched);

  detail::JobState state;
  state.local_rank = launched.local_rank.value_or(session->local_rank());
  if (session->any_share_memory()) {
    state.make_device = [] { return device::make_cpu_device(device::CpuBuffers::registrable); };
  }
  run_rank({.rank = session->rank(),
            .recorder = session->recorder(),
            .make_communicator =
                [&] {
                  auto communicator = make_tcp(session, {.timeout = options.join_timeout});
                  communicator->set_options({});
                  return communicator;
                },
            .after_all = [&session] { session->await_all(); },  // an early exit would look like a lost rank
            .fail = [&session](std::string const& reason) { session->fail(session->rank(), reason); },
            .failure = [&session] { return session->failure(); },
            .end_process = [](int status) { end_process(status); },
            .describe_silent = [&session] { return session->describe_silent(); }},
           state, rank_main, options);
  return 0;
}

}  // namespace zeroth::comm
