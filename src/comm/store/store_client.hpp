// SPDX-License-Identifier: Apache-2.0
/// One rank's side of the store.
#pragma once
#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/store/connection.hpp"
#include "comm/store/store.hpp"
#include "comm/store/timeout_reports.hpp"
#include "core/counter.hpp"

namespace zeroth::comm {

/// A call that waits for rank 0's answer. `done` counts to 1 when the other members are set.
struct StoreCall {
  enum class Outcome : std::uint8_t { values, contract_error, peer_error, late_error };
  Outcome outcome = Outcome::values;
  std::string text;
  std::vector<std::string> values;
  Counter done;
};

/// Never waits. Only the store's thread may use it, except that any thread may call failure(), failed() and
/// in_timeout_query().
class StoreClient {
 public:
  struct Options {
    int rank = 0;
    int world = 1;
    std::string host;   ///< This rank's, for messages.
    std::string rank0;  ///< "rank 0 (node1:29500)"
    std::chrono::milliseconds heartbeat_timeout{};
    std::function<void(JobFailure const&)> on_failure;
    std::function<std::string(int rank)> groups_of;
  };
  StoreClient(Connection connection, Options options);

  /// Sends a call, which ends with its answer.
  void call(Kind kind, std::string body, std::shared_ptr<StoreCall> const& call);
  /// Asks rank 0 to fail the job; if rank 0 does not answer, fails it only here.
  void abort(std::string const& reason);
  /// Call when this rank's wait has timed out: rank 0 asks all waiting ranks, and fails the job with the resulting
  /// reason. If rank 0 does not answer, fails the job only here.
  void begin_timeout_query();
  void report_timeout(TimeoutReport const& report);
  void leave();
  /// Fails the job as far as this process is concerned. Only the first failure counts.
  void fail(JobFailure const& failure);

  void watch(std::vector<pollfd>& entries) const;
  void serve(std::span<pollfd const> entries, Clock::time_point now);
  [[nodiscard]] Clock::time_point next_deadline() const noexcept;
  void forgive_silence(Clock::time_point now) noexcept { heard_ = now; }
  /// Whether all output has been sent, or cannot be sent.
  [[nodiscard]] bool has_sent_all() const noexcept;

  [[nodiscard]] std::optional<JobFailure> failure() const;
  [[nodiscard]] bool in_timeout_query() const noexcept { return in_timeout_query_.load(std::memory_order_relaxed); }
  /// Counts to 1 when the job has failed.
  [[nodiscard]] Counter const& failed() const noexcept { return failed_; }

 private:
  enum class State : std::uint8_t { joined, alone, failed };  // alone: rank 0 has left, or this rank has
  void take(Frame const& frame);
  void look_for_silence(Clock::time_point now);
  void ask_to_fail(Kind kind, std::string body, std::string const& reason, std::chrono::milliseconds patience);
  void end_calls(std::string const& why);
  [[nodiscard]] std::string name_rank0() const;  ///< With its groups.
  static void end_call(StoreCall& call, StoreCall::Outcome outcome, std::string const& text);

  Connection connection_;
  Options options_;
  State state_ = State::joined;
  std::string alone_because_;
  std::uint64_t last_tag_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<StoreCall>> calls_;
  Clock::time_point heard_, next_beat_;
  bool asked_to_abort_ = false;
  std::string own_reason_;  // the reason with which this rank fails the job here if rank 0 has not by `own_deadline_`
  Clock::time_point own_deadline_ = Clock::time_point::max();

  mutable std::mutex mutex_;
  std::optional<JobFailure> failure_;
  std::atomic<bool> in_timeout_query_{false};
  Counter failed_;
};

}  // namespace zeroth::comm
