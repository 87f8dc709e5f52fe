// SPDX-License-Identifier: Apache-2.0
/// Communicators that only take time. What a rank brings, all others are taken to have brought too.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/abort_state.hpp"
#include "comm/barrier.hpp"
#include "comm/group.hpp"
#include "simulate/collective_cost.hpp"
#include "simulate/seats.hpp"
#include "simulate/virtual_device.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/flight_recorder.hpp"
#include "zeroth/simulate/machine.hpp"

namespace zeroth::simulate {

/// Where simulated ranks tell each other numbers, such as when they reach a transaction: it starts with the last of
/// them. A number may have bytes beside it: those of a message.
class VirtualBarrier {
 public:
  explicit VirtualBarrier(int ranks);
  /// Contributes a number without waiting, and returns the meeting. Call await() for the last but one first.
  std::uint64_t arrive(std::size_t rank, double number);
  /// Contributes bytes to the meeting that this rank's next arrive() is for. One rank of them may.
  void put(std::size_t rank, std::span<std::byte const> bytes) {
    bytes_[(met_[rank] + 1) % 2].assign(bytes.begin(), bytes.end());
  }
  /// Returns all numbers of a meeting. Waits for all ranks, on the host. Throws PeerError once the job was aborted.
  [[nodiscard]] std::vector<double> const& await(std::uint64_t meeting, comm::AbortState const& abort) const;
  /// The bytes that were put to a meeting, once await() has returned.
  [[nodiscard]] std::span<std::byte const> bytes(std::uint64_t meeting) const noexcept { return bytes_[meeting % 2]; }
  /// The latest time of all.
  [[nodiscard]] double meet(std::size_t rank, double time_us, comm::AbortState const& abort);

 private:
  comm::Barrier meeting_;
  std::vector<std::uint64_t> met_;  // by rank
  // By parity of the meeting: no rank enters one before all have read the numbers of the last but one.
  std::array<std::vector<double>, 2> numbers_;
  std::array<std::vector<std::byte>, 2> bytes_;  // by the same parity
};

/// The request of rank `rank` of `parent` for its split number `split`, from 0. Most ranks do not exist to make one.
using ExpectedSplits = std::function<comm::SplitRequest(comm::Group const& parent, std::size_t split, int rank)>;

/// What the communicators of all simulated ranks share.
class VirtualJob {
 public:
  /// Only the ranks in `existing`, ascending, of the `world` exist. A communicator of which all ranks exist splits as
  /// they ask; others as `splits` says or, without it, into one part in order. `seats` determines the nodes of ranks.
  VirtualJob(Machine const& machine, int world, std::vector<int> existing, ExpectedSplits splits = {},
             Seats const& seats = {});
  /// The communicator of all ranks, for a rank that exists.
  [[nodiscard]] std::unique_ptr<comm::Communicator> communicator(int rank);
  /// Ranks behind the last one that exists do what it does, and their messages say what its messages say.
  void mirror_last() noexcept { mirrors_last_ = true; }
  void abort(std::string const& reason) noexcept { abort_.abort(reason); }
  [[nodiscard]] std::int64_t bytes_sent(int rank) const { return ranks_[*index_of(rank)].bytes_sent; }

 private:
  friend class VirtualCommunicator;
  struct alignas(64) Rank {
    std::shared_ptr<comm::FlightRecorder> recorder;
    std::int64_t bytes_sent = 0;
    double last_begin_us = 0;  // of a collective on any communicator
    // The last message that came from the rank that others mirror:
    double received_us = 0;           // when both ends were ready for it
    std::vector<std::byte> received;  // its bytes, if they are real
  };
  /// The index of a rank among those that exist.
  [[nodiscard]] std::optional<std::size_t> index_of(int rank) const noexcept;
  /// The reach of a group's ranks.
  [[nodiscard]] Reach reach(comm::Group const& group) const;
  /// The barrier of those ranks of a group that exist.
  [[nodiscard]] std::shared_ptr<VirtualBarrier> barrier(comm::Group const& group);

  Machine const& machine_;
  int world_;
  ExpectedSplits splits_;
  Seats seats_;
  comm::AbortState abort_;
  std::vector<Rank> ranks_;
  std::mutex mutex_;
  std::vector<int> existing_;
  bool mirrors_last_ = false;
  std::map<std::uint64_t, std::shared_ptr<VirtualBarrier>> barriers_;  // by Group::id
};

class VirtualCommunicator final : public comm::Communicator {
 public:
  VirtualCommunicator(VirtualJob& job, comm::Group group);
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
  /// Throws ContractError where ranks that exist ask for something else than was expected of them.
  [[nodiscard]] std::unique_ptr<comm::Communicator> do_split(int color, int key, std::string const& name) override;

  /// One message to or from another rank, which does not hold up the host.
  void do_message(VirtualStream& stream, comm::Collective const& message);
  /// The same where the other rank exists.
  void exchange_with_peer(VirtualStream& stream, comm::Collective const& message, CollectiveCost const& cost);
  /// The same where the other rank is the mirror of one that exists.
  void exchange_with_mirror(VirtualStream& stream, comm::Collective const& message, CollectiveCost const& cost);
  /// How many ranks bring something to a sum.
  [[nodiscard]] int addends() const noexcept;
  [[nodiscard]] std::vector<comm::SplitRequest> requests(std::size_t split, comm::SplitRequest mine) const;

  VirtualJob& job_;
  VirtualJob::Rank& mine_;
  comm::Group group_;
  Reach reach_;
  std::shared_ptr<VirtualBarrier> barrier_;
  std::size_t here_ = 0, existing_ = 0;  // among those of the group that exist, and how many they are
  std::size_t splits_ = 0;
};

}  // namespace zeroth::simulate
