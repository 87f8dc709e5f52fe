// SPDX-License-Identifier: Apache-2.0
/// A transaction as a rank holds it until it has run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device/peer_stream.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

struct Transaction {
  Label label;
  std::uint64_t sequence = 0;  ///< Among those of this rank's communicator, from 1.
  std::uint64_t position = 0;  ///< As sequence, but without those that are messages alone: the same on all ranks.
  std::chrono::milliseconds timeout{};
  device::PeerStream* stream = nullptr;  ///< Of a GPU, that its work is enqueued on; null: the host does the work.
  std::vector<Collective> group;         ///< What all ranks do together, in order.
  std::vector<Collective> messages;      ///< Sends and receives, in order.
  std::vector<std::uint64_t> records;    ///< Of the flight recorder, one per collective.
  std::span<int const> job_ranks;        ///< [world] Rank in the job of each rank of its communicator.

  /// Does every rank take part, or only those that it has messages for?
  [[nodiscard]] bool is_of_all() const noexcept { return messages.empty() || !group.empty(); }
};

/// "all_gather (forward of unit 'a', 12 fp32) and 2 more"
[[nodiscard]] std::string describe(Transaction const& transaction);
/// Of what concerns all ranks.
[[nodiscard]] bool same(Transaction const& a, Transaction const& b) noexcept;
/// How two transactions that are not the same differ; `who_a` and `who_b` are the ranks in words.
[[nodiscard]] std::string difference(std::string const& who_a, Transaction const& a, std::string const& who_b,
                                     Transaction const& b);

/// The ranks of the job without which `transaction` cannot end on rank `rank` of those that `job_ranks` [world] lists;
/// only those of its messages, if `messages_alone`.
[[nodiscard]] std::vector<int> awaited_ranks(Transaction const& transaction, bool messages_alone, int rank,
                                             std::vector<int> const& job_ranks);

/// One side of a message, as its rank sees it.
struct MessageSide {
  std::string who;
  std::uint64_t sequence = 0;  ///< Of the transaction that it belongs to.
  Label label;
  Collective message;
  std::span<int const> job_ranks;  ///< [world]
};
/// Do a send and a receive fit?
[[nodiscard]] bool same_message(Collective const& a, Collective const& b) noexcept;
/// What to say when they do not.
[[nodiscard]] std::string message_difference(std::string const& communicator, MessageSide const& a,
                                             MessageSide const& b);

/// What to say when they differ.
[[nodiscard]] std::string disagreement(std::string const& communicator, std::string const& who_a, Transaction const& a,
                                       std::string const& who_b, Transaction const& b);

/// Transactions of one communicator that wait in its queue or run. Memory is used again: no allocation once the longest
/// list and the most transactions at a time have been seen. Any thread may call anything.
class TransactionPool {
 public:
  /// `job_ranks` [world] are the communicator's, and stay where they are.
  explicit TransactionPool(std::span<int const> job_ranks);
  /// Holds a copy of `collectives`, and the position after that of the one before.
  [[nodiscard]] Transaction& take(Label const& label, std::span<Collective const> collectives,
                                  std::chrono::milliseconds timeout);
  void recycle(Transaction& transaction) noexcept;

 private:
  void add_one();

  std::span<int const> job_ranks_;
  std::mutex mutex_;
  std::size_t longest_ = 16;
  std::uint64_t position_ = 0;
  std::deque<Transaction> all_;
  std::vector<Transaction*> free_;
};

}  // namespace zeroth::comm
