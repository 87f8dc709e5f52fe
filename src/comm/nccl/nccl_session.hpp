// SPDX-License-Identifier: Apache-2.0
/// State that all NCCL communicators of one rank share: the store, the watch, and the end of the job.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/abort_state.hpp"
#include "comm/memberships.hpp"
#include "comm/nccl/nccl_link.hpp"
#include "comm/nccl/nccl_watch.hpp"
#include "comm/peer_status.hpp"
#include "comm/store/rendezvous.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// One per rank; outlives its communicators. Its own thread makes communicators; any thread may call fail().
class NcclSession {
 public:
  /// Sets `rendezvous.on_failure`, and makes `gpu` current on the calling thread. Throws as Rendezvous does: on all
  /// ranks if one has a GPU that does not work, or a libnccl that is too old.
  NcclSession(RendezvousOptions rendezvous, int gpu, std::shared_ptr<FlightRecorder> recorder);
  ~NcclSession();
  NcclSession(NcclSession const&) = delete;
  NcclSession& operator=(NcclSession const&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int world() const noexcept { return world_; }
  [[nodiscard]] int gpu() const noexcept { return gpu_; }
  [[nodiscard]] FlightRecorder& recorder() noexcept { return *recorder_; }
  [[nodiscard]] Rendezvous& rendezvous() noexcept { return *rendezvous_; }
  [[nodiscard]] NcclWatch& watch() noexcept { return *watch_; }
  /// See HostJob.
  [[nodiscard]] Memberships& memberships() noexcept { return memberships_; }
  /// Four bytes of the GPU for barriers, whose values do not matter. Different from those of the last communicators
  /// that asked.
  [[nodiscard]] void* barrier_word() noexcept;

  /// Fails the job on all ranks. Any thread; waits for the store, at most three seconds. Only the job's first reason is
  /// kept.
  void fail(std::string const& reason) noexcept;
  /// Calls fail(), and throws PeerError with the job's first reason.
  [[noreturn]] void fail_and_throw(std::string const& reason);
  [[nodiscard]] bool failed() const noexcept { return abort_.aborted(); }
  [[nodiscard]] std::optional<std::string> failure() const { return abort_.failure(); }

  /// Gathers the `value` of each of `ranks` of the job, at most 4096 bytes, in their order. All of them call this with
  /// the same name. Throws PeerError at the deadline, or when the job has failed.
  [[nodiscard]] std::vector<std::string> gather(std::string const& name, std::vector<int> const& ranks,
                                                std::string const& value, std::chrono::milliseconds timeout);
  /// Waits until all ranks of the job have called it, without a timeout. Throws PeerError when the job has failed.
  void await_all();
  /// Asks `ranks` of the job for their status. Call only when the job is about to fail: they answer once.
  [[nodiscard]] std::vector<PeerStatus> ask_where(std::uint64_t communicator, std::vector<int> const& ranks);
  /// "rank 1 waited 2.00 s in all_gather (...), transaction 7 of communicator 'gather'; missing: rank 3, which ..."
  [[nodiscard]] std::string explain_late(NcclLink const& link, Transaction const& transaction, Clock::time_point begun);

 private:
  void take_gpu();
  [[nodiscard]] std::string describe_whereabouts() const;
  void answer() noexcept;

  int rank_, world_, gpu_;
  std::shared_ptr<FlightRecorder> recorder_;
  AbortState abort_;
  Memberships memberships_;
  std::optional<Rendezvous> rendezvous_;
  std::map<std::string, std::uint64_t> gathers_;
  struct Free {
    void operator()(void* memory) const noexcept { static_cast<void>(cudaFree(memory)); }
  };
  std::unique_ptr<void, Free>
      barrier_words_;  // allocated once, as an allocation may wait for work on the GPU, and so for other ranks
  std::size_t barrier_words_given_ = 0;
  std::optional<NcclWatch> watch_;
  std::atomic<bool> ending_{false};
  std::thread answering_;
};

/// "all_gather (...), transaction 7 of communicator 'gather'"
[[nodiscard]] std::string describe_on(NcclLink const& link, Transaction const& transaction);

}  // namespace zeroth::comm
