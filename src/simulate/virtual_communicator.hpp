// SPDX-License-Identifier: Apache-2.0
/// A communicator that only takes time. What a rank brings, all others are taken to have brought too.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/abort_state.hpp"
#include "comm/barrier.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/flight_recorder.hpp"
#include "zeroth/simulate/machine.hpp"

namespace zeroth::simulate {

/// Where simulated ranks tell each other when they reach a transaction: it starts with the last of them.
class VirtualBarrier {
 public:
  explicit VirtualBarrier(int ranks);
  /// The latest time of all. Waits for all ranks, on the host. Throws PeerError once the job was aborted.
  [[nodiscard]] double meet(std::size_t rank, double time_us, comm::AbortState const& abort);

 private:
  comm::Barrier meeting_;
  std::vector<std::uint64_t> met_;  // by rank
  // Of even and odd meetings: nobody comes to one before all have read the times of the last but one.
  std::array<std::vector<double>, 2> times_us_;
};

/// What the communicators of all simulated ranks share.
class VirtualJob {
 public:
  /// `simulated` ranks, the first of `world`, exist.
  VirtualJob(Machine const& machine, int world, int simulated);
  /// Rank's communicator of all ranks.
  [[nodiscard]] std::unique_ptr<comm::Communicator> communicator(int rank);
  void abort(std::string const& reason) noexcept { abort_.abort(reason); }
  [[nodiscard]] std::int64_t bytes_sent(int rank) const { return ranks_[static_cast<std::size_t>(rank)].bytes_sent; }

 private:
  friend class VirtualCommunicator;
  struct alignas(64) Rank {
    std::shared_ptr<comm::FlightRecorder> recorder;
    std::int64_t bytes_sent = 0;
    std::size_t communicators = 0;
  };
  /// All ranks split in the same order, so that the n-th communicators of all ranks belong together.
  [[nodiscard]] std::shared_ptr<VirtualBarrier> next_barrier(Rank& rank);

  Machine const& machine_;
  int world_;
  comm::AbortState abort_;
  std::vector<Rank> ranks_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<VirtualBarrier>> barriers_;
};

class VirtualCommunicator final : public comm::Communicator {
 public:
  VirtualCommunicator(VirtualJob& job, int rank, std::string name);
  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int world() const noexcept override { return job_.world_; }
  [[nodiscard]] int job_rank(int rank) const noexcept override { return rank; }
  [[nodiscard]] comm::Transport transport() const noexcept override { return comm::Transport::local; }
  [[nodiscard]] std::string const& name() const noexcept override { return name_; }
  [[nodiscard]] comm::FlightRecorder& recorder() noexcept override { return *mine_.recorder; }
  void set_options(comm::CommOptions const& /*options*/) override {}
  void set_staging(std::span<std::byte> /*staging*/) override {}
  void abort(std::string const& reason) noexcept override { job_.abort_.abort(reason); }

 private:
  void do_submit(device::Stream& stream, comm::Label const& label,
                 std::span<comm::Collective const> collectives) override;
  /// Of all ranks in the same order only: throws ContractError otherwise.
  [[nodiscard]] std::unique_ptr<comm::Communicator> do_split(int color, int key, std::string const& name) override;

  VirtualJob& job_;
  VirtualJob::Rank& mine_;
  int rank_;
  std::string name_;
  std::shared_ptr<VirtualBarrier> barrier_;
};

}  // namespace zeroth::simulate
