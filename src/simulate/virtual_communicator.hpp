// SPDX-License-Identifier: Apache-2.0
/// Communicators that only take simulated time. All other ranks are assumed to contribute the same as this one.
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

/// A barrier at which simulated ranks exchange numbers, such as the time at which they reach a transaction, which
/// starts with the last of them. A number may come with the bytes of a message.
class VirtualBarrier {
 public:
  explicit VirtualBarrier(int ranks);
  /// Contributes a number without waiting, and returns the meeting. Call await() for the meeting before the previous
  /// one first.
  std::uint64_t arrive(std::size_t rank, double number);
  /// Contributes bytes to the meeting of this rank's next arrive(). At most one rank may do so per meeting.
  void put(std::size_t rank, std::span<std::byte const> bytes) {
    bytes_[(met_[rank] + 1) % 2].assign(bytes.begin(), bytes.end());
  }
  /// Returns all numbers of a meeting. Waits for all ranks, on the host. Throws PeerError once the job was aborted.
  [[nodiscard]] std::vector<double> const& await(std::uint64_t meeting, comm::AbortState const& abort) const;
  /// The bytes that were put to a meeting, once await() has returned.
  [[nodiscard]] std::span<std::byte const> bytes(std::uint64_t meeting) const noexcept { return bytes_[meeting % 2]; }
  /// Exchanges times, and returns the latest.
  [[nodiscard]] double meet(std::size_t rank, double time_us, comm::AbortState const& abort);

 private:
  comm::Barrier meeting_;
  std::vector<std::uint64_t> met_;  // by rank
  // By parity of the meeting: no rank enters a meeting before all have read the numbers of the one before the previous.
  std::array<std::vector<double>, 2> numbers_;
  std::array<std::vector<std::byte>, 2> bytes_;  // by the same parity
};

/// The request of rank `rank` of `parent` for its split number `split`, from 0. Most ranks do not exist, so they cannot
/// make their requests.
using ExpectedSplits = std::function<comm::SplitRequest(comm::Group const& parent, std::size_t split, int rank)>;

/// State that the communicators of all simulated ranks share.
class VirtualJob {
 public:
  /// Only the ranks in `existing`, ascending, of the `world` exist. If all ranks of a communicator exist, it is split
  /// by their requests; otherwise by `splits` or, without it, into one part in order. `seats` determines the nodes of
  /// ranks.
  VirtualJob(Machine const& machine, int world, std::vector<int> existing, ExpectedSplits splits = {},
             Seats const& seats = {});
  /// The communicator of all ranks, for a rank that exists.
  [[nodiscard]] std::unique_ptr<comm::Communicator> communicator(int rank);
  /// Ranks after the last existing one do the same as that one, and send the same messages.
  void mirror_last() noexcept { mirrors_last_ = true; }
  void abort(std::string const& reason) noexcept { abort_.abort(reason); }
  [[nodiscard]] std::int64_t bytes_sent(int rank) const { return ranks_[*index_of(rank)].bytes_sent; }

 private:
  friend class VirtualCommunicator;
  struct alignas(64) Rank {
    std::shared_ptr<comm::FlightRecorder> recorder;
    std::int64_t bytes_sent = 0;
    double last_begin_us = 0;  // begin of the last collective on any communicator
    // The last message from the rank that others mirror:
    double received_us = 0;           // when both ends were ready for it
    std::vector<std::byte> received;  // its bytes, if they are real
  };
  /// The index of a rank among those that exist.
  [[nodiscard]] std::optional<std::size_t> index_of(int rank) const noexcept;
  /// The reach of a group's ranks.
  [[nodiscard]] Reach reach(comm::Group const& group) const;
  /// The barrier of a group's existing ranks.
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
  /// Throws ContractError if existing ranks make other requests than expected.
  [[nodiscard]] std::unique_ptr<comm::Communicator> do_split(int color, int key, std::string const& name) override;

  /// One message to or from another rank. Does not block the host.
  void do_message(VirtualStream& stream, comm::Collective const& message);
  /// The same if the other rank exists.
  void exchange_with_peer(VirtualStream& stream, comm::Collective const& message, CollectiveCost const& cost);
  /// The same if the other rank mirrors an existing one.
  void exchange_with_mirror(VirtualStream& stream, comm::Collective const& message, CollectiveCost const& cost);
  /// The number of ranks that contribute to a sum.
  [[nodiscard]] int addends() const noexcept;
  [[nodiscard]] std::vector<comm::SplitRequest> requests(std::size_t split, comm::SplitRequest mine) const;

  VirtualJob& job_;
  VirtualJob::Rank& mine_;
  comm::Group group_;
  Reach reach_;
  std::shared_ptr<VirtualBarrier> barrier_;
  std::size_t here_ = 0, existing_ = 0;  // index among the group's existing ranks, and their number
  std::size_t splits_ = 0;
};

}  // namespace zeroth::simulate
