// SPDX-License-Identifier: Apache-2.0
#include "rank_starts.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <sstream>
#include <system_error>

#include <zeroth/core/error.hpp>

namespace zeroth::tools {
namespace {

/// A free port. The system does not assign it again for a while to programs that ask for any port.
int free_port() {
  int const socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  bool const found = ::bind(socket, any, size) == 0 && ::getsockname(socket, any, &size) == 0;
  int const error = errno;
  ::close(socket);
  if (!found) {
    throw SystemError{"no free port on 127.0.0.1: " + std::generic_category().message(error)};
  }
  return ntohs(address.sin_port);
}

std::vector<Start> under_mpirun(AgentOptions const& options, int ranks) {
  std::vector<std::string> command;
  std::istringstream words{options.mpirun};
  for (std::string word; words >> word;) {
    command.push_back(word);
  }
  command.insert(command.end(), {"-n", std::to_string(ranks)});
  command.insert(command.end(), options.program.begin(), options.program.end());
  return {{command, {}, true}};
}

/// Passed in the environment, which `ps` hides from other users, unlike a command line.
std::string random_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

/// Sets the variables of torchrun on one machine. A random token rejects processes of earlier attempts and of other
/// users.
std::vector<Start> as_torchrun(AgentOptions const& options, int ranks, int attempt) {
  auto const world = std::to_string(ranks);
  auto const port = std::to_string(free_port());
  auto const token = random_token();
  std::vector<Start> starts;
  for (int rank = 0; rank < ranks; ++rank) {
    auto const number = std::to_string(rank);
    starts.push_back({options.program,
                      {{"RANK", number},
                       {"LOCAL_RANK", number},
                       {"WORLD_SIZE", world},
                       {"LOCAL_WORLD_SIZE", world},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", port},
                       {"TORCHELASTIC_RESTART_COUNT", std::to_string(attempt - 1)},
                       {"TORCHELASTIC_RUN_ID", fmt::format("zeroth-run-{}-{}", ::getpid(), attempt)},
                       {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                       {"ZEROTH_JOB_TOKEN", token}}});
  }
  return starts;
}

}  // namespace

std::vector<Start> rank_starts(AgentOptions const& options, int ranks, int attempt) {
  switch (comm::traits_of(options.transport).ranks) {
    case comm::RankKind::threads: return {{options.program, {{"ZEROTH_THREAD_RANKS", std::to_string(ranks)}}}};
    case comm::RankKind::processes_of_mpi: return under_mpirun(options, ranks);
    case comm::RankKind::processes: break;
  }
  return as_torchrun(options, ranks, attempt);
}

}  // namespace zeroth::tools
