// SPDX-License-Identifier: Apache-2.0
/// State that the communicators of one rank share if hosts do the work: the end of the job, and the status of all
/// ranks.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/job_failure.hpp"
#include "comm/key_values.hpp"
#include "comm/leavers.hpp"
#include "comm/memberships.hpp"
#include "comm/peer_status.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// How long a rank whose wait failed waits for the others' status answers; and how long a rank that is about to end
/// waits for answers, as launchers kill a second after SIGTERM.
inline constexpr std::chrono::milliseconds patience_for_whereabouts{1000};
inline constexpr std::chrono::milliseconds patience_for_silence{300};

/// One per rank and transport; outlives its communicators. Any thread may call any function.
class HostJob {
 public:
  HostJob() = default;
  HostJob(HostJob const&) = delete;
  HostJob& operator=(HostJob const&) = delete;
  virtual ~HostJob() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual std::shared_ptr<FlightRecorder> const& recorder() const noexcept = 0;

  /// Fails the job on all ranks. On return the transport accesses no memory any more, so waits may throw. Only the
  /// first call on any rank counts. `origin` is the rank that caused or detected the failure.
  virtual void fail(int origin, std::string const& reason) noexcept = 0;
  /// Like fail(), for a rank whose wait timed out, with the status `places` of the ranks that it waited for. A
  /// transport may choose another rank's report of the same failure as the job's reason.
  virtual void report_timeout(std::string const& reason, std::vector<PeerStatus> const& places) noexcept {
    static_cast<void>(places);
    fail(rank(), reason);
  }
  /// Whether a rank is about to report a timeout. Every waiting rank then reports too, whatever its own deadline.
  [[nodiscard]] virtual bool in_timeout_query() const noexcept { return false; }
  /// Set once the transport no longer accesses any memory that it was given.
  [[nodiscard]] virtual std::optional<JobFailure> failure() const = 0;

  /// A communicator registers its progress counter, and removes it at its end. The other `ranks` then learn that this
  /// one left after transaction `last`.
  virtual void enter(std::uint64_t communicator, std::atomic<std::uint64_t> const& begun) = 0;
  virtual void leave(std::uint64_t communicator, std::vector<int> const& ranks, std::uint64_t last) = 0;
  /// The ranks that have left the communicator.
  [[nodiscard]] virtual std::vector<Leaver> who_left(std::uint64_t communicator) const = 0;
  /// Asks `ranks` for their status. Waits briefly for all answers.
  [[nodiscard]] virtual std::vector<PeerStatus> ask_where(std::uint64_t communicator,
                                                          std::vector<int> const& ranks) = 0;

  /// The keys and values of the job; null if it has none.
  [[nodiscard]] virtual KeyValues* key_values() noexcept { return nullptr; }

  /// The groups that ranks are in. Communicators report their splits and ends.
  [[nodiscard]] Memberships& memberships() noexcept { return memberships_; }

 private:
  Memberships memberships_;
};

}  // namespace zeroth::comm
