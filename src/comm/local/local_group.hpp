// SPDX-License-Identifier: Apache-2.0
/// State that the ranks of a local communicator share.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/abort_state.hpp"
#include "comm/barrier.hpp"
#include "comm/group.hpp"
#include "comm/local/host_waits.hpp"
#include "comm/local/local_channel.hpp"
#include "comm/local/local_key_values.hpp"
#include "comm/transaction.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// A rank as the others of its group see it.
struct alignas(64) LocalMember {
  int job_rank = 0;  ///< In the communicator that all others were split from.
  std::shared_ptr<FlightRecorder> recorder;
  Transaction const* transaction = nullptr;  ///< Its transaction; the others may read it between enter() and leave().
  /// On a GPU: the points that its stream must reach before others use its memory (`arrived`), and before it may reuse
  /// that memory itself (`done`). Made once, and recorded before enter() and before leave(): a wait for an event that
  /// was never recorded would return at once. No rank records one again before all have enqueued their waits for it,
  /// because that takes another entry.
  std::unique_ptr<device::Event> arrived, done;
  std::atomic<std::uint64_t> entries{0};  ///< The last one that it came to.
  std::atomic<std::uint64_t> splits{0};   ///< The last split that it came to.
  std::atomic<bool> left{false};          ///< It will take part in nothing any more.
};

class LocalGroup;

/// State that all communicators of a job share.
struct LocalJob {
  explicit LocalJob(int of) : world{of}, waits{of} {}
  int world;
  AbortState abort;
  HostWaits waits;
  LocalKeyValues key_values{abort};
  std::atomic<std::uint64_t> groups{0};  ///< The number of groups so far.

  /// Groups that not all of their ranks have taken yet: see LocalGroup::create().
  struct Made {
    std::shared_ptr<LocalGroup> group;
    std::size_t taken = 0;
  };
  std::mutex mutex;
  std::map<std::uint64_t, Made> made;
};

class LocalGroup {
 public:
  using Misses = std::function<bool(int)>;    ///< Whether this rank has not arrived yet.
  using What = std::function<std::string()>;  ///< Describes what a rank waits in.

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
  [[nodiscard]] LocalKeyValues& key_values() noexcept { return job_->key_values; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }  ///< Unique among the groups of the job.
  [[nodiscard]] LocalMember& member(int rank) noexcept { return members_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] LocalChannel& channel(int from, int to) noexcept {
    return channels_[static_cast<std::size_t>(from) * members_.size() + static_cast<std::size_t>(to)];
  }
  /// The name of a rank in messages: see describe_rank() of comm/describe.hpp.
  [[nodiscard]] std::string describe_rank(int rank);

  /// Publishes `transaction` and returns when all ranks have published theirs. Throws PeerError if that fails, and then
  /// it fails on all ranks. leave() must follow it on all paths.
  void enter(int rank, Transaction const& transaction);
  /// Returns when no rank uses this rank's transaction any more: soon, because a rank that has entered works without
  /// waiting.
  void leave(int rank) noexcept;
  /// Call between the two. A description of the ranks whose transactions differ; empty if none do. The same text on all
  /// ranks. Memory of the host and of GPUs count as different, too.
  [[nodiscard]] std::string disagreement();

  /// A rank's place in the result of a split; null for a negative color.
  struct Place {
    std::shared_ptr<LocalGroup> group;
    int rank = 0;
  };
  /// Collective.
  [[nodiscard]] Place split(int rank, int color, int key, std::string const& name, std::chrono::milliseconds timeout);
  /// The group `id` of the ranks `ranks` of this one, in that order. Each of them calls it once; the first one makes
  /// it.
  [[nodiscard]] std::shared_ptr<LocalGroup> create(std::uint64_t id, std::span<int const> ranks,
                                                   std::string const& name);
  /// Throws PeerError if the job was aborted; `what()` describes what this rank was about to do.
  void expect_running(int rank, auto const& what);

  /// Waits until `reached(deadline)` returns true; then returns an empty string. Otherwise returns the reason to give
  /// up: the job was aborted, a rank for which `misses(rank)` is true left, or time is up. `what()` describes what this
  /// rank waits in.
  template <class Reached>
  [[nodiscard]] std::string wait(int rank, std::chrono::milliseconds timeout, Reached const& reached,
                                 auto const& misses, auto const& what);
  /// Aborts the job with this reason, if it was not aborted before, and throws.
  [[noreturn]] void fail(std::string const& reason);

 private:
  void make_parts();
  [[nodiscard]] std::shared_ptr<LocalGroup> make(std::span<int const> ranks, std::string const& name);
  [[nodiscard]] std::string why_aborted(int rank, What const& what);
  /// Reports a deadlock: a rank that `misses` waits itself, at the entrance of another group, for this one. Empty if
  /// there is none.
  [[nodiscard]] std::string why_crossed(int rank, Misses const& misses);
  [[nodiscard]] bool has_come(int job_rank, std::uint64_t entry);
  [[nodiscard]] std::string why_to_end(int rank, Clock::time_point begin, Clock::time_point deadline,
                                       Misses const& misses, What const& what);

  std::string name_;
  std::shared_ptr<LocalJob> job_;
  std::uint64_t id_;
  std::vector<LocalMember> members_;
  std::vector<int> job_ranks_;  // [world]
  std::vector<LocalChannel> channels_;
  Barrier entrance_, exit_;

  Barrier split_entrance_;
  std::mutex split_mutex_;
  // by rank; used by that rank until it arrives, then under the mutex
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
  constexpr std::chrono::milliseconds poll_interval{50};  // an abort is noticed within this time
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
