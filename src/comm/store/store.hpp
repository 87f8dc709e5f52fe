// SPDX-License-Identifier: Apache-2.0
/// A small store that rank 0 keeps for all ranks of a job: how processes find each other before they can communicate,
/// and how they learn that one of them is gone when they no longer can.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/job_failure.hpp"
#include "comm/store/socket.hpp"
#include "comm/store/timeout_reports.hpp"
#include "zeroth/core/clock.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {

/// Time is up, and somebody did not come.
struct LateError final : PeerError {
  using PeerError::PeerError;
};

/// For calls that end with the job at the latest.
inline constexpr std::chrono::milliseconds until_the_job_ends{std::chrono::hours{24 * 365}};

struct StoreAddress {
  std::string host = {};      ///< Rank 0's, as all others reach it. A loopback address keeps the job on one machine.
  int port = 0;               ///< 0, on rank 0: any free one, see Store::port().
  std::string given_by = {};  ///< Where host and port come from, for messages: "MASTER_ADDR=node1 MASTER_PORT=29500".
  /// The same on all ranks of a job, at most 256 bytes, and of no other job: a rank that says another one is refused.
  /// It keeps foreign connections and stale processes out and is no secret: it travels as it is.
  std::string token = {};
  /// Rank 0 takes the first of so many that is free, from `port` on, and the others look for it at all of them.
  int ports = 1;
};

struct StoreOptions {
  StoreAddress at = {};
  int rank = 0;
  int world = 1;
  std::chrono::milliseconds join_timeout{300'000};      ///< How long a rank looks for rank 0.
  std::chrono::milliseconds answer_timeout{10'000};     ///< For the answer to one attempt; then it tries again.
  std::chrono::milliseconds heartbeat_timeout{10'000};  ///< Rank 0's counts for all; 10 min at most.
  std::chrono::milliseconds leave_timeout{5'000};       ///< How long rank 0's destructor waits for the others to leave.
  /// Called once, on the store's own thread, when the job fails. It must neither wait nor end the store.
  std::function<void(JobFailure const&)> on_failure = {};
  /// What messages put behind the name of a rank that is lost: " (of 'gather-group': ranks 2 and 3)", or nothing. As
  /// on_failure.
  std::function<std::string(int rank)> groups_of = {};
};

/// This rank's connection to the store; on rank 0 also the store.
///
/// Keys, of at most 256 bytes, are set once, by one rank, and stay unless they were set for a number of reads; all that
/// is held at a time may take 64 MiB. Values are any bytes, at most 4096. A rank that fails, ends without leaving, or
/// is not heard of or does not hear rank 0 for the heartbeat timeout fails the job: within that time, a tenth of it and
/// a second every rank has a failure(), its on_failure has been called, and its calls throw PeerError with the reason.
/// Heartbeats come from a thread of their own: they tell a frozen process, not a frozen loop.
///
/// Threads: any thread may call anything; one thread runs beside them and sleeps while nothing happens.
/// Errors: ContractError for keys, values and uses that are wrong. PeerError if the job has failed, or a rank that is
/// needed has left. LateError if the time is up: it names who did not come, and the job goes on.
/// Destruction: leaves the job. Rank 0 first waits until all others that joined have left, or leave_timeout has passed.
/// Where an exception unwinds it, it fails the job. Takes no longer than leave_timeout and three seconds.
class Store {
 public:
  /// Rank 0 listens and returns; another rank returns when rank 0 has let it in. Throws SystemError if rank 0 cannot
  /// listen, PeerError if rank 0 is not found in time, and ConfigError if it is found and refuses: another job's token,
  /// another world, or a rank that has joined already.
  explicit Store(StoreOptions const& options);
  ~Store();
  Store(Store const&) = delete;
  Store& operator=(Store const&) = delete;

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int world() const noexcept;
  [[nodiscard]] int port() const noexcept;  ///< At which rank 0 listens.
  /// The address from which this rank reached rank 0, and that at which it did, numbers; empty on rank 0.
  [[nodiscard]] Ends const& ends() const noexcept;
  [[nodiscard]] std::chrono::milliseconds heartbeat_timeout() const noexcept;  ///< Rank 0's.

  void set(std::string_view key, std::string_view value);
  /// A key that goes when it has been read `reads` times, 1 or more.
  void set_for(int reads, std::string_view key, std::string_view value);
  /// Waits until a rank has set it.
  [[nodiscard]] std::string get(std::string_view key, std::chrono::milliseconds timeout);
  /// Every rank's value, in rank order, [world]. All ranks call it with the same name; a name can be used again. With
  /// empty values, a barrier. The first of their timeouts ends it for all who wait.
  std::vector<std::string> gather(std::string_view name, std::string_view value, std::chrono::milliseconds timeout);

  /// Fails the job. Returns when rank 0 has told all ranks, or two seconds have passed. Only the job's first reason
  /// counts; 4096 bytes of it are passed on.
  void abort(std::string const& reason) noexcept;
  /// For a rank that waits in vain, before it asks others where they are: then all who wait do the same.
  void begin_timeout_query() noexcept;
  /// Whether a rank has begun one.
  [[nodiscard]] bool in_timeout_query() const noexcept;
  /// What it heard. Fails the job, within five seconds, with the reason that follows from what all of them say: see
  /// TimeoutReports. Returns when it has; where rank 0 cannot be asked, the reason is this rank's own, here.
  void report_timeout(TimeoutReport const& report) noexcept;
  [[nodiscard]] std::optional<JobFailure> failure() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zeroth::comm
