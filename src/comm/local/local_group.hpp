// SPDX-License-Identifier: Apache-2.0
/// What the ranks of a local communicator share.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/abort_state.hpp"
#include "comm/barrier.hpp"
#include "comm/group.hpp"
#include "comm/local/host_waits.hpp"
#include "comm/local/local_channel.hpp"
#include "comm/transaction.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// A rank as the others of its group see it.
struct alignas(64) LocalMember {
  int job_rank = 0;  ///< In the communicator that all others were split from.
  std::shared_ptr<FlightRecorder> recorder;
  Transaction const* transaction = nullptr;  ///< What it brought; for the others between enter() and leave().
  /// On a GPU: up to where its stream must come before others use what it brought, and to where before it uses that
  /// again itself. Made once, recorded before enter() and before leave(): a wait for an event that was never recorded
  /// would return at once. Nobody records one again before all have enqueued their waits for it: that takes another
  /// entry.
  std::unique_ptr<device::Event> arrived, done;
  std::atomic<std::uint64_t> entries{0};  ///< The last one that it came to.
  std::atomic<std::uint64_t> splits{0};   ///< Likewise.
  std::atomic<bool> left{false};          ///< Will come to nothing any more.
};

/// What all communicators of a job share.
struct LocalJob {
  explicit LocalJob(int of) : world{of}, waits{of} {}
  int world;
  AbortState abort;
  HostWaits waits;
};

class LocalGroup {
 public:
  using Misses = std::function<bool(int)>;    ///< Has this rank not come yet?
  using What = std::function<std::string()>;  ///< What a rank waits in, in words.

  /// In order of rank.
  struct Member {
    int job_rank;
    std::shared_ptr<FlightRecorder> recorder;
  };
  LocalGroup(std::string name, std::vector<Member> const& members, std::shared_ptr<LocalJob> job);

  [[nodiscard]] int world() const noexcept { return static_cast<int>(members_.size()); }
  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  [[nodiscard]] std::vector<int> const& job_ranks() const noexcept { return job_ranks_; }  ///< [world]
  [[nodiscard]] AbortState& abort() noexcept { return job_->abort; }
  [[nodiscard]] LocalMember& member(int rank) noexcept { return members_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] LocalChannel& channel(int from, int to) noexcept {
    return channels_[static_cast<std::size_t>(from) * members_.size() + static_cast<std::size_t>(to)];
  }
  /// As messages name it: see describe_rank() of comm/describe.hpp.
  [[nodiscard]] std::string describe_rank(int rank);

  /// Brings `transaction` to the others and returns when all have brought theirs. Throws PeerError if that is not to
  /// be, and then it is so for everybody. After it comes leave(), on all paths.
  void enter(int rank, Transaction const& transaction);
  /// Returns when nobody uses what this rank brought: soon, because who has entered works without waiting.
  void leave(int rank) noexcept;
  /// Between the two: which ranks brought different things, in words; empty if none did. The same text on all ranks.
  /// Memory of the host and of GPUs are different things, too.
  [[nodiscard]] std::string disagreement();

  /// A rank's place in what a split made; null for a negative color.
  struct Place {
    std::shared_ptr<LocalGroup> group;
    int rank = 0;
  };
  /// Collective.
  [[nodiscard]] Place split(int rank, int color, int key, std::string const& name, std::chrono::milliseconds timeout);
  /// Throws PeerError if the job was aborted; `what()` says what this rank was about to do.
  void expect_running(int rank, auto const& what);

  /// Waits until `reached(deadline)` says so. Empty then; otherwise why not to wait any longer: the job was
  /// aborted, a rank of which `misses(rank)` is true left, or time is up. `what()` says what this rank waits in.
  template <class Reached>
  [[nodiscard]] std::string wait(int rank, std::chrono::milliseconds timeout, Reached const& reached,
                                 auto const& misses, auto const& what);
  /// Ends the job for this reason, if nothing did before.
  [[noreturn]] void fail(std::string const& reason);

 private:
  void make_parts();
  [[nodiscard]] std::string why_aborted(int rank, What const& what);
  /// Says so if a rank that `misses` waits itself, at the entrance of another group, for this one. Empty if none does.
  [[nodiscard]] std::string why_crossed(int rank, Misses const& misses);
  [[nodiscard]] bool has_come(int job_rank, std::uint64_t entry);
  [[nodiscard]] std::string why_to_end(int rank, Clock::time_point begin, Clock::time_point deadline,
                                       Misses const& misses, What const& what);

  std::string name_;
  std::shared_ptr<LocalJob> job_;
  std::vector<LocalMember> members_;
  std::vector<int> job_ranks_;  // [world]
  std::vector<LocalChannel> channels_;
  Barrier entrance_, exit_;

  Barrier split_entrance_;
  std::mutex split_mutex_;
  // by rank; its own until it arrives, then under the mutex
  std::vector<SplitRequest> requests_;
  std::vector<std::string> new_names_;
  std::vector<Place> places_;
  std::uint64_t splits_done_ = 0;
};

void LocalGroup::expect_running(int rank, auto const& what) {
  if (job_->abort.aborted()) [[unlikely]] {
    fail(why_aborted(rank, what));
  }
}

template <class Reached>
std::string LocalGroup::wait(int rank, std::chrono::milliseconds timeout, Reached const& reached, auto const& misses,
                             auto const& what) {
  constexpr std::chrono::milliseconds poll_interval{50};  // how late an abort may be noticed
  auto const begin = Clock::now();
  auto const deadline = begin + timeout;
  for (auto now = begin; !reached(std::min<Clock::time_point>(now + poll_interval, deadline)); now = Clock::now()) {
    if (auto why = why_to_end(rank, begin, deadline, misses, what); !why.empty()) {
      return why;
    }
  }
  return {};
}

}  // namespace zeroth::comm
