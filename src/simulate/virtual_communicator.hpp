// SPDX-License-Identifier: Apache-2.0
/// Communicators that only take time. What a rank brings, all others are taken to have brought too.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/abort_state.hpp"
#include "comm/barrier.hpp"
#include "comm/group.hpp"
#include "simulate/collective_cost.hpp"
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

/// What `rank` will ask of the job's split number `split`, from 0: most ranks do not exist to say so.
using ExpectedSplits = std::function<comm::SplitRequest(std::size_t split, int rank)>;

/// What the communicators of all simulated ranks share.
class VirtualJob {
 public:
  /// `simulated` ranks, the first of `world` or all, exist. Without `splits` each is one of all ranks, in order.
  VirtualJob(Machine const& machine, int world, int simulated, ExpectedSplits splits = {});
  /// Rank's communicator of all ranks.
  [[nodiscard]] std::unique_ptr<comm::Communicator> communicator(int rank);
  void abort(std::string const& reason) noexcept { abort_.abort(reason); }
  [[nodiscard]] std::int64_t bytes_sent(int rank) const { return ranks_[static_cast<std::size_t>(rank)].bytes_sent; }

 private:
  friend class VirtualCommunicator;
  struct alignas(64) Rank {
    std::shared_ptr<comm::FlightRecorder> recorder;
    std::int64_t bytes_sent = 0;
    std::size_t splits = 0;
    double last_begin_us = 0;  // of a collective on any communicator
  };
  /// All ranks split in the same order: those of the same split and color belong together.
  [[nodiscard]] std::shared_ptr<VirtualBarrier> barrier(std::size_t split, int color, std::size_t ranks);
  /// Those of split number `split` of all ranks. Throws ContractError where `mine` is not what was expected of `rank`.
  [[nodiscard]] std::vector<comm::SplitRequest> requests(std::size_t split, int rank, comm::SplitRequest mine) const;

  Machine const& machine_;
  int world_;
  ExpectedSplits splits_;
  comm::AbortState abort_;
  std::vector<Rank> ranks_;
  std::mutex mutex_;
  std::map<std::pair<std::size_t, int>, std::shared_ptr<VirtualBarrier>> barriers_;
};

class VirtualCommunicator final : public comm::Communicator {
 public:
  /// `group` with `barrier` of those of its ranks that exist.
  VirtualCommunicator(VirtualJob& job, comm::Group group, std::shared_ptr<VirtualBarrier> barrier);
  [[nodiscard]] int rank() const noexcept override { return group_.rank; }
  [[nodiscard]] int world() const noexcept override { return group_.world(); }
  [[nodiscard]] int job_rank(int rank) const noexcept override { return group_.job_rank(rank); }
  [[nodiscard]] comm::Transport transport() const noexcept override { return comm::Transport::local; }
  [[nodiscard]] std::string const& name() const noexcept override { return group_.name; }
  [[nodiscard]] comm::FlightRecorder& recorder() noexcept override { return *mine_.recorder; }
  void set_options(comm::CommOptions const& /*options*/) override {}
  void set_staging(std::span<std::byte> /*staging*/) override {}
  void abort(std::string const& reason) noexcept override { job_.abort_.abort(reason); }
  [[nodiscard]] std::optional<std::string> failure() const override { return job_.abort_.failure(); }

 private:
  void do_submit(device::Stream& stream, comm::Label const& label,
                 std::span<comm::Collective const> collectives) override;
  /// Of a job's communicator, as it expects it: throws ContractError otherwise.
  [[nodiscard]] std::unique_ptr<comm::Communicator> do_split(int color, int key, std::string const& name) override;

  VirtualJob& job_;
  VirtualJob::Rank& mine_;
  comm::Group group_;
  Reach reach_;
  std::shared_ptr<VirtualBarrier> barrier_;
};

}  // namespace zeroth::simulate
