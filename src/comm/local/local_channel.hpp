// SPDX-License-Identifier: Apache-2.0
/// Messages from one thread to one other.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "comm/transaction.hpp"
#include "core/counter.hpp"

namespace zeroth::comm {

/// The sender posts all messages of a transaction at once, as pointers, and keeps their memory until they are taken.
/// The receiver copies. Messages are numbered from 0.
class alignas(64) LocalChannel {
 public:
  // the sender's
  /// Everything that was posted before has been taken.
  void post(Transaction const& transaction, std::uint32_t count) noexcept;
  [[nodiscard]] bool wait_until_taken(Clock::time_point deadline) const noexcept;
  [[nodiscard]] bool all_taken() const noexcept { return taken_.value() == posted_.value(); }
  /// For a sender that does not want to wait any longer: no further message is taken, and nothing is being copied when
  /// this returns.
  void close() noexcept;

  // the receiver's
  [[nodiscard]] bool wait_until_posted(Clock::time_point deadline) const noexcept;
  [[nodiscard]] bool any_posted() const noexcept { return taken_.value() != posted_.value(); }
  /// The oldest message that is posted. Null if the sender has closed; otherwise taken() follows.
  [[nodiscard]] Collective const* claim(int receiver) noexcept;
  /// The transaction that the claimed message belongs to.
  [[nodiscard]] Transaction const& transaction() const noexcept { return *transaction_; }
  void taken() noexcept { taken_.add(); }

  /// Between streams of GPUs: what was posted may be read, and has been read. Recorded, each by its side, before post()
  /// and before taken(), and again only after the other side has enqueued its wait.
  std::unique_ptr<device::Event> sent, received;

 private:
  static constexpr std::uint64_t closed = std::uint64_t{1} << 63U;

  Counter posted_, taken_;
  std::atomic<std::uint64_t> claimed_{0};     // how many, and `closed`
  Transaction const* transaction_ = nullptr;  // what follows is written while nothing is posted
  std::uint32_t first_ = 0;                   // the number of the transaction's first message
};

}  // namespace zeroth::comm
