// SPDX-License-Identifier: Apache-2.0
/// State that the tcp communicators of one rank share: the store, the transports to other ranks, and the end of the
/// job.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/group.hpp"
#include "comm/host_job.hpp"
#include "comm/peer_status_tracker.hpp"
#include "comm/store/rendezvous.hpp"
#include "comm/tcp/shared_queues.hpp"
#include "comm/tcp/tcp_links.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// How blocks move between ranks of one machine.
enum class WithinMachine : std::uint8_t {
  memory,   ///< Read in place, if the memory is registered and ranks can map each other's; otherwise like `network`.
  network,  ///< As between machines.
};

struct TcpOptions {
  RendezvousOptions rendezvous;  ///< on_failure is set here.
  /// The network interface at which other ranks reach this one. Empty: the loopback interface if the job is on one
  /// machine, otherwise the one by which this rank reached rank 0.
  std::string interface = {};
  WithinMachine within_machine = WithinMachine::memory;
  /// If set, returns the endpoint that this rank connects to for rank `rank`, which listens at `at`.
  std::function<Endpoint(int rank, Endpoint const& at)> detour = {};
};

/// One per rank; outlives its communicators. Any thread may call any function.
class TcpSession final : public HostJob {
 public:
  /// Waits until all ranks have arrived. Throws as Rendezvous does; on all ranks, ConfigError if one of them has no
  /// such interface, and SystemError if one cannot listen.
  explicit TcpSession(TcpOptions options);
  ~TcpSession() override;

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int world() const noexcept { return world_; }
  [[nodiscard]] int local_rank() const noexcept;  ///< Among the ranks of its machine.
  [[nodiscard]] std::shared_ptr<FlightRecorder> const& recorder() const noexcept override { return recorder_; }
  [[nodiscard]] KeyValues* key_values() noexcept override { return &rendezvous_->key_values(); }
  [[nodiscard]] TcpLinks& links() noexcept { return *links_; }

  /// The ranks of `group` that map each other's memory with this rank: their ranks in the group, including this one.
  [[nodiscard]] std::vector<int> members_here(Group const& group) const;

  /// How many of the job's ranks are on this machine, this one included, whether they share memory or not.
  [[nodiscard]] std::size_t ranks_on_machine() const noexcept;
  /// Whether any two ranks of the job map each other's memory.
  [[nodiscard]] bool any_share_memory() const noexcept;
  /// The queues of members_here(), if there are several. All of them call it for every communicator, in the same order;
  /// waits for them.
  [[nodiscard]] std::shared_ptr<SharedQueues> share_queues(Group const& group, std::chrono::milliseconds timeout);

  void fail(int origin, std::string const& reason) noexcept override;
  void report_timeout(std::string const& reason, std::vector<PeerStatus> const& places) noexcept override;
  [[nodiscard]] bool in_timeout_query() const noexcept override;
  [[nodiscard]] std::optional<JobFailure> failure() const override;
  /// A number that identifies one of this rank's jobs, the same on all ranks.
  [[nodiscard]] std::uint64_t next_job();
  /// Waits until all ranks have called it, without a timeout; after that connections may end. Throws PeerError when the
  /// job has failed.
  void await_all();

  void enter(std::uint64_t communicator, std::atomic<std::uint64_t> const& begun) override {
    peer_statuses_.enter(communicator, begun);
  }
  void leave(std::uint64_t communicator, std::vector<int> const& ranks, std::uint64_t last) override;
  [[nodiscard]] std::vector<Leaver> who_left(std::uint64_t communicator) const override {
    return peer_statuses_.who_left(communicator);
  }
  [[nodiscard]] std::vector<PeerStatus> ask_where(std::uint64_t communicator, std::vector<int> const& ranks) override;
  /// Like MpiSession::describe_silent().
  [[nodiscard]] std::string describe_silent();

 private:
  struct Neighbour {
    Endpoint at;
    std::string domain;  ///< See memory_domain().
    SharedFile file;     ///< Lets other ranks test whether they can open what this rank shares.
    bool shares_memory = false;
  };
  [[nodiscard]] std::shared_ptr<SharedQueues> try_to_share_queues(Group const& group,
                                                                  std::chrono::milliseconds timeout);
  void meet(TcpOptions const& options);
  void choose_ways(TcpOptions const& options, std::string problem);
  [[nodiscard]] std::string why_not_shared() const;
  void end_all_use(JobFailure const& failure) noexcept;
  void end_all_use_after(int origin, std::string const& reason) noexcept;
  void receive(int from, WireHead const& head, std::string const& words);
  [[nodiscard]] std::vector<PeerStatus> ask(std::uint64_t communicator, std::vector<int> const& ranks,
                                            std::chrono::milliseconds patience);

  int rank_, world_;
  std::shared_ptr<FlightRecorder> recorder_;
  std::atomic<std::uint64_t> job_count_{0};
  PeerStatusTracker peer_statuses_;
  std::vector<Neighbour> ranks_;  // [world]

  mutable std::mutex mutex_;
  std::optional<JobFailure> failure_;
  std::vector<std::weak_ptr<SharedQueues>> queues_;
  TcpLinks* linked_ = nullptr;  ///< Set once there are links.

  std::optional<Rendezvous> rendezvous_;
  std::unique_ptr<TcpLinks> links_;
};

}  // namespace zeroth::comm
