// SPDX-License-Identifier: Apache-2.0
/// A small store that rank 0 keeps for all ranks of a job. Processes find each other through it before they can
/// communicate, and learn from it that one of them is gone when they no longer can.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/job_failure.hpp"
#include "comm/key_values.hpp"
#include "comm/store/socket.hpp"
#include "comm/store/timeout_reports.hpp"
#include "zeroth/core/clock.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {

/// Time is up, and a rank did not come.
struct LateError final : PeerError {
  using PeerError::PeerError;
};

/// For calls that end with the job at the latest.
inline constexpr std::chrono::milliseconds until_the_job_ends{std::chrono::hours{24 * 365}};

struct StoreAddress {
  std::string host = {};      ///< Rank 0's address for all others. A loopback address restricts the job to one machine.
  int port = 0;               ///< 0, on rank 0: any free one, see Store::port().
  std::string given_by = {};  ///< The source of host and port, for messages: "MASTER_ADDR=node1 MASTER_PORT=29500".
  /// The same on all ranks of a job, at most 256 bytes, and unique to the job: a rank with another token is rejected.
  /// It keeps foreign connections and stale processes out, but is no secret: it is sent in clear text.
  std::string token = {};
  /// Rank 0 takes the first free one of so many ports from `port` on, and the others try all of them.
  int ports = 1;
};

struct StoreOptions {
  StoreAddress at = {};
  int rank = 0;
  int world = 1;
  std::chrono::milliseconds join_timeout{300'000};      ///< How long a rank tries to reach rank 0.
  std::chrono::milliseconds answer_timeout{10'000};     ///< For the answer to one attempt; then it tries again.
  std::chrono::milliseconds heartbeat_timeout{10'000};  ///< Rank 0's value applies to all; at most 10 min.
  std::chrono::milliseconds leave_timeout{5'000};       ///< How long rank 0's destructor waits for the others to leave.
  /// Called once, on the store's own thread, when the job fails. It must neither block nor destroy the store.
  std::function<void(JobFailure const&)> on_failure = {};
  /// The text that messages append to the name of a lost rank: " (of 'gather-group': ranks 2 and 3)", or nothing.
  /// Called under the same rules as on_failure.
  std::function<std::string(int rank)> groups_of = {};
};

/// This rank's connection to the store; on rank 0 also the store.
///
/// Keys have at most 256 bytes. Each is set once, by one rank, and stays unless it was set for a number of reads;
/// together they may take 64 MiB. Values are any bytes, at most 4096.
/// A rank fails the job if it reports an error, ends without leaving, or if it or rank 0 receives nothing from the
/// other for the heartbeat timeout. Within that time, a tenth of it and a second, every rank has a failure(), its
/// on_failure has been called, and its calls throw PeerError with the reason. A separate thread sends heartbeats: they
/// detect a frozen process, not a hung loop.
///
/// Threads: any thread may call any function; one additional thread runs, and sleeps while nothing happens. Errors:
/// ContractError for invalid keys, values and uses. PeerError if the job has failed, or a needed rank has left.
/// LateError at a timeout: it names the missing ranks, and the job continues.
/// Destruction: leaves the job. Rank 0 first waits until all others that joined have left, or leave_timeout has passed.
/// If an exception unwinds it, it fails the job. Takes no longer than leave_timeout and three seconds.
class Store {
 public:
  /// Rank 0 listens and returns; another rank returns when rank 0 has accepted it. Throws SystemError if rank 0 cannot
  /// listen, PeerError if rank 0 is not found in time, and ConfigError if rank 0 rejects this rank: another job's
  /// token, another world, or a rank that has joined already.
  explicit Store(StoreOptions const& options);
  ~Store();
  Store(Store const&) = delete;
  Store& operator=(Store const&) = delete;

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int world() const noexcept;
  [[nodiscard]] int port() const noexcept;  ///< The port at which rank 0 listens.
  /// The numeric addresses of this rank and of rank 0 on their connection; empty on rank 0.
  [[nodiscard]] Ends const& ends() const noexcept;
  [[nodiscard]] std::chrono::milliseconds heartbeat_timeout() const noexcept;  ///< Rank 0's value.

  void set(std::string_view key, std::string_view value);
  /// Sets a key that is deleted after `reads` reads, 1 or more.
  void set_for(int reads, std::string_view key, std::string_view value);
  /// Waits until a rank has set the key.
  [[nodiscard]] std::string get(std::string_view key, std::chrono::milliseconds timeout);
  /// Every rank's value, in rank order, [world]. All ranks call it with the same name; a name can be reused. With empty
  /// values it is a barrier. The first timeout of any rank ends it for all waiting ranks.
  std::vector<std::string> gather(std::string_view name, std::string_view value, std::chrono::milliseconds timeout);

  /// A call of the job's KeyValueTable, which rank 0 has in addition to the keys above.
  [[nodiscard]] KeyValueAnswer key_value(KeyValueCall const& call);

  /// Fails the job. Returns when rank 0 has told all ranks, or after two seconds. Only the job's first reason is kept;
  /// 4096 bytes of it are sent.
  void abort(std::string const& reason) noexcept;
  /// Call when a wait has timed out, before asking others for their status: then all waiting ranks do the same.
  void begin_timeout_query() noexcept;
  /// Whether a rank has begun a timeout query.
  [[nodiscard]] bool in_timeout_query() const noexcept;
  /// Reports what this rank heard. Within five seconds the job fails with the reason that follows from the reports of
  /// all ranks: see TimeoutReports. Returns after that. If rank 0 cannot be asked, the reason is this rank's own, and
  /// only here.
  void report_timeout(TimeoutReport const& report) noexcept;
  [[nodiscard]] std::optional<JobFailure> failure() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zeroth::comm
