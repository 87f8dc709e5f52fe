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
  std::uint64_t sequence = 0;  ///< Number on this rank's communicator, from 1.
  std::uint64_t position = 0;  ///< Like sequence, without those that only have messages: the same on all ranks.
  std::chrono::milliseconds timeout{};
  device::PeerStream* stream = nullptr;  ///< The GPU stream of its work; null: the host does the work.
  std::vector<Collective> collectives;   ///< The collectives of all ranks, in order.
  std::vector<Collective> messages;      ///< Sends and receives, in order.
  std::vector<std::uint64_t> records;    ///< In the flight recorder, one per collective.
  std::span<int const> job_ranks;        ///< [world] Rank in the job of each rank of its communicator.

  /// Whether every rank takes part, not only the partners of its messages.
  [[nodiscard]] bool is_of_all() const noexcept { return messages.empty() || !collectives.empty(); }
};

/// "all_gather (forward of unit 'a', 12 fp32) and 2 more"
[[nodiscard]] std::string describe(Transaction const& transaction);
/// Whether the collectives of all ranks are the same.
[[nodiscard]] bool same(Transaction const& a, Transaction const& b) noexcept;
/// The difference between two transactions; `who_a` and `who_b` name the ranks.
[[nodiscard]] std::string difference(std::string const& who_a, Transaction const& a, std::string const& who_b,
                                     Transaction const& b);

/// The ranks of the job that `transaction` waits for on rank `rank` of the communicator with `job_ranks` [world]; only
/// the partners of its messages if `messages_alone`.
[[nodiscard]] std::vector<int> awaited_ranks(Transaction const& transaction, bool messages_alone, int rank,
                                             std::vector<int> const& job_ranks);

/// One side of a message, as its rank sees it.
struct MessageSide {
  std::string who;
  std::uint64_t sequence = 0;  ///< The sequence of its transaction.
  Label label;
  Collective message;
  std::span<int const> job_ranks;  ///< [world]
};
/// Whether a send and a receive match.
[[nodiscard]] bool same_message(Collective const& a, Collective const& b) noexcept;
/// The error if they do not match.
[[nodiscard]] std::string message_difference(std::string const& communicator, MessageSide const& a,
                                             MessageSide const& b);

/// The error if two transactions differ.
[[nodiscard]] std::string disagreement(std::string const& communicator, std::string const& who_a, Transaction const& a,
                                       std::string const& who_b, Transaction const& b);

/// Transactions of one communicator that are queued or running. Reuses memory: allocates only for a longer list or more
/// transactions at a time than ever before. Any thread may call any function.
class TransactionPool {
 public:
  /// `job_ranks` [world] are the communicator's, and must outlive this.
  explicit TransactionPool(std::span<int const> job_ranks);
  /// Returns a transaction with a copy of `collectives`, and the next position.
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
