// SPDX-License-Identifier: Apache-2.0
/// MPI in this process: its ranks, the end of the job, and the status of all ranks.
#pragma once
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/host_job.hpp"
#include "comm/mpi/mpi_control.hpp"
#include "comm/mpi/mpi_key_values.hpp"
#include "comm/mpi/mpi_thread.hpp"
#include "comm/peer_status_tracker.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// One per process. Lives as long as the process, and finalises MPI if it initialised it; if the program initialised
/// MPI, it ends with its last user instead. Any thread may call any function.
class MpiSession final : public HostJob {
 public:
  /// The session of this process. The first call waits for all ranks of the job. Throws SystemError with the reason if
  /// MPI cannot be used.
  [[nodiscard]] static std::shared_ptr<MpiSession> open();
  /// The MPI call in which the first open(), or later the creation of a communicator, waits for all ranks.
  [[nodiscard]] static char const* starting_call() noexcept;
  ~MpiSession() override;

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int world() const noexcept { return world_; }
  [[nodiscard]] int local_rank() const noexcept { return local_rank_; }
  [[nodiscard]] MPI_Comm communicator() const noexcept { return communicator_; }  ///< All ranks; for the library only.
  [[nodiscard]] std::shared_ptr<FlightRecorder> const& recorder() const noexcept override { return recorder_; }
  [[nodiscard]] MpiThread& thread() noexcept { return *thread_; }
  [[nodiscard]] KeyValues* key_values() noexcept override { return &*key_values_; }

  void fail(int origin, std::string const& reason) noexcept override;
  [[nodiscard]] std::optional<JobFailure> failure() const override;
  /// Ends all processes of the job, including this one.
  [[noreturn]] void abort_job(int status) noexcept;

  /// A number that identifies one of this rank's jobs, the same on all ranks.
  [[nodiscard]] std::uint64_t next_job() noexcept { return ++job_count_; }
  void enter(std::uint64_t communicator, std::atomic<std::uint64_t> const& begun) override {
    peer_statuses_.enter(communicator, begun);
  }
  void leave(std::uint64_t communicator, std::vector<int> const& ranks, std::uint64_t last) override;
  [[nodiscard]] std::vector<Leaver> who_left(std::uint64_t communicator) const override {
    return peer_statuses_.who_left(communicator);
  }
  [[nodiscard]] std::vector<PeerStatus> ask_where(std::uint64_t communicator, std::vector<int> const& ranks) override;
  /// "no answer from rank 3", for ranks that are gone or frozen; empty if all answer, or if MPI no longer works. Waits
  /// at most 300 ms.
  [[nodiscard]] std::string describe_silent();

 private:
  MpiSession();
  [[nodiscard]] std::vector<PeerStatus> ask(std::uint64_t communicator, std::vector<int> const& ranks,
                                            std::chrono::milliseconds patience);
  void initialise();
  void finalise();
  // on the MPI thread
  [[nodiscard]] bool service();
  void announce();
  void handle(ControlMessage const& message);
  void answer(ControlMessage const& question);
  void send(int to, ControlMessage const& message) { control_->send(to, message); }

  bool initialised_here_ = false;
  std::atomic<std::uint64_t> job_count_{0};
  int rank_ = 0, world_ = 1, local_rank_ = 0;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::shared_ptr<FlightRecorder> recorder_;
  PeerStatusTracker peer_statuses_;

  mutable std::mutex mutex_;
  std::optional<JobFailure> failure_;

  // used by the MPI thread
  std::optional<MpiControl> control_;
  std::optional<MpiKeyValues> key_values_;  ///< Any thread may call it.
  bool announced_ = false;
  bool told_ = false;
  int noted_count_ = 0;
  Clock::time_point halt_at_ = Clock::time_point::max();

  std::unique_ptr<MpiThread> thread_;  // last: it uses all of the above
};

}  // namespace zeroth::comm
