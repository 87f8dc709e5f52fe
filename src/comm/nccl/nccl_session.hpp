// SPDX-License-Identifier: Apache-2.0
/// What all NCCL communicators of one rank share: the store, the watch, and the end of the job.
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

/// One per rank; outlives its communicators. Its own thread enters communicators; fail() is for any.
class NcclSession {
 public:
  /// `rendezvous.on_failure` is set here. `gpu` is made current on the calling thread. Throws as Rendezvous does, on
  /// all ranks where it is a GPU that does not work, or a libnccl that is too old.
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
  /// Four bytes of the GPU for barriers, whose values nobody reads. Not those of the last communicators that asked.
  [[nodiscard]] void* barrier_word() noexcept;

  /// Fails the job on all ranks. Any thread; waits for the store, three seconds at most. The job's first reason counts.
  void fail(std::string const& reason) noexcept;
  /// fail(), and throws PeerError with the job's first reason.
  [[noreturn]] void fail_and_throw(std::string const& reason);
  [[nodiscard]] bool failed() const noexcept { return abort_.aborted(); }
  [[nodiscard]] std::optional<std::string> failure() const { return abort_.failure(); }

  /// What each of `ranks` of the job, who all call this with the same name, brings: at most 4096 bytes, in their order.
  /// Throws PeerError at the deadline, or when the job has failed.
  [[nodiscard]] std::vector<std::string> gather(std::string const& name, std::vector<int> const& ranks,
                                                std::string const& value, std::chrono::milliseconds timeout);
  /// Waits until all ranks of the job have come here, however long they take. Throws PeerError when the job has failed.
  void await_all();
  /// Asks `ranks` of the job where they are. A job ends after that: they answer once.
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
      barrier_words_;  // allocated once: it may wait for what is on the GPU, and so for other ranks
  std::size_t barrier_words_given_ = 0;
  std::optional<NcclWatch> watch_;
  std::atomic<bool> ending_{false};
  std::thread answering_;
};

/// "all_gather (...), transaction 7 of communicator 'gather'"
[[nodiscard]] std::string describe_on(NcclLink const& link, Transaction const& transaction);

}  // namespace zeroth::comm
