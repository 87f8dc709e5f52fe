// SPDX-License-Identifier: Apache-2.0
/// Rank 0's side of the store: its connections, its answers, and how all ranks learn that the job has failed.
#pragma once
#include <poll.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/job_failure.hpp"
#include "comm/store/connection.hpp"
#include "comm/store/store_table.hpp"
#include "comm/store/timeout_reports.hpp"

namespace zeroth::comm {

/// Never waits; the store's thread calls it between polls. No input from a peer makes it throw.
///
/// A new connection may only send hello; with the job's token it becomes a rank's. A mistake before that closes the
/// connection. A mistake of a rank, its end and its silence fail the job.
class StoreServer {
 public:
  struct Options {
    std::string token;
    int world = 1;
    std::chrono::milliseconds heartbeat_timeout{};
    std::function<std::string(int rank)> groups_of = {};
  };
  StoreServer(Descriptor listener, Options options);
  /// Adds rank 0's own connection, which sends no hello.
  void adopt(Descriptor socket, std::string const& host);

  /// Appends the entries for poll().
  void watch(std::vector<pollfd>& entries) const;
  /// Handles the entries that watch() appended, in the same order, after a poll() that ended at `now`.
  void serve(std::span<pollfd const> entries, Clock::time_point now);
  [[nodiscard]] Clock::time_point next_deadline() const noexcept;
  /// Restarts all heartbeat timeouts. For a process that was stopped itself, and cannot tell which ranks were silent.
  void forgive_silence(Clock::time_point now) noexcept;

  /// True once only rank 0 needs the store: the ranks that joined have left, or the job has failed.
  [[nodiscard]] bool is_deserted() const noexcept;
  /// Tells the remaining ranks that rank 0 leaves, and accepts no connections any more.
  void close();
  [[nodiscard]] bool has_sent_all() const noexcept;

 private:
  struct Peer {
    Peer(Descriptor socket, std::string from, Clock::time_point now)
        : connection{std::move(socket), most_hello_bytes},
          address{std::move(from)},
          since{now},
          heard{now},
          heard_us{now} {}
    Connection connection;
    std::string address;
    Clock::time_point since, heard;
    Clock::time_point heard_us;  // when it last heard this rank, by its own report
    int rank = -1;               // -1: unknown yet
    bool refused = false;        // it was told so, and only reads that
    bool deaf = false;           // it reported that it receives nothing from this rank any more, and left
    bool ended = false;          // to be removed
  };

  void accept_all(Clock::time_point now);
  void read(Peer& peer, Clock::time_point now);
  void take(Peer& peer, Frame const& frame, Clock::time_point now);
  void admit(Peer& peer, Hello const& hello);
  void refuse(Peer& peer, Refusal refusal, std::string const& to_him, std::string const& to_us);
  void end(Peer& peer, std::string const& how);
  void leave(Peer& peer);
  void fail(int origin, std::string const& reason);
  void look_at_the_clock(Clock::time_point now);
  void warn_of_absent(Clock::time_point now);
  void look_for_silence(Clock::time_point now);
  void read_what_came(Clock::time_point now);
  void fail_for_silence(Clock::time_point now);
  void begin_timeout_query(int first, Clock::time_point now);
  void conclude_timeout_query(Clock::time_point now);
  void send_replies();
  void log_refusal(Peer const& peer, std::string const& what);
  [[nodiscard]] std::string name_of(int rank) const;
  [[nodiscard]] std::string groups_of(int rank) const;
  [[nodiscard]] RankState& state_of(int rank) { return roster_[static_cast<std::size_t>(rank)]; }

  Descriptor listener_;
  Options options_;
  Roster roster_;
  StoreTable table_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> members_;      // [world]; null for a rank that has not joined, or has left
  std::vector<std::string> hosts_;  // [world]
  std::optional<TimeoutReports> timeout_reports_;
  std::optional<JobFailure> failure_;
  std::optional<Clock::time_point> warns_at_ = Clock::now() + silence_before_log;  // unless all have arrived
  Clock::time_point accept_again_{};  // set after the system has refused a connection
  int refusals_logged_ = 0;
};

}  // namespace zeroth::comm
