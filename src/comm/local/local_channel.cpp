// SPDX-License-Identifier: Apache-2.0
#include "comm/local/local_channel.hpp"

namespace zeroth::comm {

void LocalChannel::post(Transaction const& transaction, std::uint32_t count) noexcept {
  transaction_ = &transaction;
  first_ = posted_.value();
  posted_.add(count);
}

bool LocalChannel::wait_until_taken(Clock::time_point deadline) const noexcept {
  return taken_.wait_until(posted_.value(), deadline);
}

void LocalChannel::close() noexcept {
  auto const claimed = static_cast<std::uint32_t>(claimed_.fetch_or(closed, std::memory_order_acq_rel));
  taken_.wait_for(claimed);
}

bool LocalChannel::wait_until_posted(Clock::time_point deadline) const noexcept {
  return posted_.wait_until(taken_.value() + 1, deadline);
}

Collective const* LocalChannel::claim(int receiver) noexcept {
  std::uint64_t seen = claimed_.load(std::memory_order_acquire);
  do {
    if ((seen & closed) != 0) {
      return nullptr;
    }
  } while (!claimed_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel));
  std::uint32_t ahead = static_cast<std::uint32_t>(seen) - first_;
  for (auto const& each : transaction_->messages) {
    if (each.operation == Operation::send && each.peer == receiver && ahead-- == 0) {
      return &each;
    }
  }
  return nullptr;  // unreachable: that many were posted
}

}  // namespace zeroth::comm
