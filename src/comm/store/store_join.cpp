// SPDX-License-Identifier: Apache-2.0
#include "comm/store/store_join.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "comm/describe.hpp"
#include "comm/store/frame.hpp"
#include "core/host_name.hpp"
#include "core/logger.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds first_pause{10};
constexpr milliseconds time_for_last_attempt{100};
constexpr milliseconds longest_pause{1000};

/// Thrown if the program at a port is not rank 0 of this job.
struct NotThere {
  std::string what;
};

std::string place_of(StoreOptions const& options, int port) {
  return fmt::format("{}{}", address_of(options.at.host, port),
                     options.at.given_by.empty() ? "" : fmt::format(" ({})", options.at.given_by));
}

/// All ports that were tried.
std::string places_of(StoreOptions const& options) {
  auto const place = place_of(options, options.at.port);
  return options.at.ports == 1 ? place : fmt::format("{} or one of the next {} ports", place, options.at.ports - 1);
}

[[noreturn]] void throw_refusal(StoreOptions const& options, int port, BodyReader body) {
  auto const refusal = static_cast<Refusal>(body.number(1, 3));
  auto message = fmt::format("rank 0's store at {} refused this process: {}", place_of(options, port),
                             body.text(most_value_bytes));
  switch (refusal) {
    case Refusal::peer: throw PeerError{message};
    case Refusal::job: throw NotThere{std::move(message)};
    default: throw ConfigError{message};
  }
}

/// Waits for the answer to hello. Returns the heartbeat timeout; otherwise sets `problem` to the reason.
std::optional<milliseconds> await_welcome(Connection& connection, StoreOptions const& options, int port,
                                          Clock::time_point deadline, std::string& problem) {
  while (true) {
    bool const is_in_time = await_socket(connection.socket(), connection.events(), deadline);
    connection.flush();
    bool const open = connection.receive();
    if (auto const frame = connection.next()) {
      BodyReader body{frame->body};
      if (frame->kind == Kind::refusal) {
        throw_refusal(options, port, body);
      }
      if (frame->kind != Kind::welcome) {
        throw BadFrame{"something before its handshake"};
      }
      return milliseconds{static_cast<std::int64_t>(body.number(1, longest_wait_ms))};
    }
    if (!open || !is_in_time) {
      problem = open ? "it accepted the connection and sent nothing" : "it accepted the connection and closed it";
      return std::nullopt;
    }
  }
}

/// One attempt. Returns nullopt and sets `problem` if another attempt may succeed.
std::optional<Joined> try_to_join(StoreOptions const& options, int port, Clock::time_point deadline,
                                  std::string& problem) {
  auto attempt = connect_to(options.at.host, port, deadline);
  if (!attempt.socket) {
    problem = std::move(attempt.problem);
    return std::nullopt;
  }
  Connection connection{std::move(attempt.socket), most_answer_bytes(1)};
  connection.send(
      Kind::hello, 0,
      encode(Hello{.token = options.at.token, .rank = options.rank, .world = options.world, .host = host_name()}));
  try {
    // The listener need not be rank 0: another program that has its port must not use up all the time.
    auto const until = std::min(deadline, Clock::now() + options.answer_timeout);
    auto const heartbeat = await_welcome(connection, options, port, until, problem);
    return heartbeat ? std::optional<Joined>{Joined{std::move(connection), *heartbeat, port}} : std::nullopt;
  } catch (BadFrame const& bad) {
    throw NotThere{fmt::format("the server at {} is not rank 0's store: it sent {}; another program uses that port",
                               place_of(options, port), bad.what())};
  }
}

/// Tries all ports that rank 0 may have. A rejection by another job or program is final only if there is a single port.
std::optional<Joined> try_ports(StoreOptions const& options, Clock::time_point deadline, std::string& problem) {
  std::string problems;
  for (int port = options.at.port; port < options.at.port + options.at.ports; ++port) {
    try {
      if (auto joined = try_to_join(options, port, deadline, problem)) {
        return joined;
      }
    } catch (NotThere const& other) {
      if (options.at.ports == 1) {
        throw ConfigError{other.what};
      }
      problem = other.what;
    }
    problems += problems.find(problem) != std::string::npos ? "" : (problems.empty() ? "" : "; ") + problem;
  }
  problem = problems;
  return std::nullopt;
}

}  // namespace

milliseconds pause_after(milliseconds last) noexcept { return std::clamp(2 * last, first_pause, longest_pause); }

Joined join_store(StoreOptions const& options) {
  auto const begin = Clock::now();
  auto const deadline = begin + options.join_timeout;
  std::string problem;
  bool logged = false;
  for (auto pause = pause_after({}); true; pause = pause_after(pause)) {
    if (auto joined = try_ports(options, deadline, problem)) {
      return std::move(*joined);
    }
    auto const now = Clock::now();
    auto const left = deadline - now;
    if (left <= time_for_last_attempt) {
      throw PeerError{
          fmt::format("rank {} of {} did not find rank 0's store at {} within {}; the last attempt: {}. Check that "
                      "rank 0 is running on that host, and that this host can reach it",
                      options.rank, options.world, places_of(options), describe(now - begin), problem)};
    }
    if (!logged && now - begin >= silence_before_log) {
      logged = true;
      logger().warn("{}rank {} still looks for rank 0's store at {}: {}", rank_prefix(), options.rank,
                    places_of(options), problem);
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, left - time_for_last_attempt));
  }
}

}  // namespace zeroth::comm
