// SPDX-License-Identifier: Apache-2.0
/// Messages from one thread to another.
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
  // for the sender
  /// All earlier messages must have been taken.
  void post(Transaction const& transaction, std::uint32_t count) noexcept;
  [[nodiscard]] bool wait_until_taken(Clock::time_point deadline) const noexcept;
  [[nodiscard]] bool all_taken() const noexcept { return taken_.value() == posted_.value(); }
  /// Call to give up waiting: no further message is taken, and no copy is running on return.
  void close() noexcept;

  // for the receiver
  [[nodiscard]] bool wait_until_posted(Clock::time_point deadline) const noexcept;
  [[nodiscard]] bool any_posted() const noexcept { return taken_.value() != posted_.value(); }
  /// The oldest posted message; call taken() after it. Null if the sender has closed.
  [[nodiscard]] Collective const* claim(int receiver) noexcept;
  /// The transaction that the claimed message belongs to.
  [[nodiscard]] Transaction const& transaction() const noexcept { return *transaction_; }
  void taken() noexcept { taken_.add(); }

  /// Between streams of GPUs: `sent` when posted memory may be read, `received` when it has been read. The sender
  /// records before post(), the receiver before taken(), and each again only after the other side has enqueued its
  /// wait.
  std::unique_ptr<device::Event> sent, received;

 private:
  static constexpr std::uint64_t closed = std::uint64_t{1} << 63U;

  Counter posted_, taken_;
  std::atomic<std::uint64_t> claimed_{0};     // their number, and the flag `closed`
  Transaction const* transaction_ = nullptr;  // this and first_ are written while nothing is posted
  std::uint32_t first_ = 0;                   // the number of the transaction's first message
};

}  // namespace zeroth::comm
