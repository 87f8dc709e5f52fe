// SPDX-License-Identifier: Apache-2.0
/// What the communicators of one rank share where hosts do the work: how the job ends, and who knows where everybody
/// is.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/job_failure.hpp"
#include "comm/leavers.hpp"
#include "comm/memberships.hpp"
#include "comm/peer_status.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// How long a rank that waits in vain waits for the others' answers to where they are; and one that is about to end for
/// those that are silent: launchers kill a second after SIGTERM.
inline constexpr std::chrono::milliseconds patience_for_whereabouts{1000};
inline constexpr std::chrono::milliseconds patience_for_silence{300};

/// One per rank and transport; outlives its communicators. Any thread may call anything.
class HostJob {
 public:
  HostJob() = default;
  HostJob(HostJob const&) = delete;
  HostJob& operator=(HostJob const&) = delete;
  virtual ~HostJob() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual std::shared_ptr<FlightRecorder> const& recorder() const noexcept = 0;

  /// Ends the job: tells all ranks. When this returns, the transport uses no memory any more, so that waits may throw.
  /// The first call anywhere counts; `origin` is the rank that is the cause, or that found out.
  virtual void fail(int origin, std::string const& reason) noexcept = 0;
  /// As fail(), by a rank that waited in vain and then heard `places` from those that it waited for. A transport may
  /// let what other ranks say about the same be the job's reason instead.
  virtual void report_timeout(std::string const& reason, std::vector<PeerStatus> const& places) noexcept {
    static_cast<void>(places);
    fail(rank(), reason);
  }
  /// Whether a rank is about to complain: whoever waits does the same then, however long it would wait by itself.
  [[nodiscard]] virtual bool in_timeout_query() const noexcept { return false; }
  /// Set once nothing that was given to the transport is used any more.
  [[nodiscard]] virtual std::optional<JobFailure> failure() const = 0;

  /// A communicator tells how far it is, and forgets it again; then the other `ranks` of it learn that this one left
  /// after transaction `last`.
  virtual void enter(std::uint64_t communicator, std::atomic<std::uint64_t> const& begun) = 0;
  virtual void leave(std::uint64_t communicator, std::vector<int> const& ranks, std::uint64_t last) = 0;
  /// Which ranks have left the communicator.
  [[nodiscard]] virtual std::vector<Leaver> who_left(std::uint64_t communicator) const = 0;
  /// Asks `ranks` where they are. Waits until all have answered, but not for long.
  [[nodiscard]] virtual std::vector<PeerStatus> ask_where(std::uint64_t communicator,
                                                          std::vector<int> const& ranks) = 0;

  /// What groups ranks are in: communicators tell of their splits and ends.
  [[nodiscard]] Memberships& memberships() noexcept { return memberships_; }

 private:
  Memberships memberships_;
};

}  // namespace zeroth::comm
